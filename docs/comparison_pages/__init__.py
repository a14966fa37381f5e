"""The page docs/comparison.md, in parts."""
