"""How the kernels of the sampler are compiled."""

from __future__ import annotations

from numba import njit


def kernel(**options):
    """Compile without the GIL and without reference counting.

    A sweep is a dozen small functions that pass some thirty arrays on. Numba counts references
    of every array at every call, with atomic operations: for short samples that is two thirds
    of the time. These functions neither make arrays nor keep them, so nothing needs counting;
    one that did would not compile.
    """
    # No wrapper for calls from C, which nobody makes: a sixth of the time to compile.
    return njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True, **options)
