"""The marginal and the joint likelihood."""
