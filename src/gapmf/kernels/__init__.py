"""Compiled loops (Numba): numbers in, numbers out, no validation and no policy."""
