"""The loops that maximise the marginal likelihood."""
