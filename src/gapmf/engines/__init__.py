"""Who advances the chains, and where."""
