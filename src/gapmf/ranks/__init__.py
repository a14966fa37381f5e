"""The number of components: rank reports and stability of fits."""
