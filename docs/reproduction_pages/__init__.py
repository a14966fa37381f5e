"""The pages docs/reproduction.md and docs/spare-column.md, written from the results in docs/figures."""
