"""How kernels are compiled, and when compiled ones are used again.

Kernels pass some thirty arrays on, and Numba counts references of every array at every call: for
short samples that is two thirds of the time. Most kernels neither make arrays nor keep them, so
nothing needs counting (`_nrt=False`); one that did would not compile.

Numba keeps compiled kernels in files that are named after the function. It looks whether the
function's own file has changed, but not at the kernels that it calls in other files. Hence the
names have a hash of all kernels' sources. After an upgrade, files of another version are not even
opened.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from numba import njit
from numba.extending import register_jitable

SOURCES = sorted(Path(__file__).parent.glob("*.py"))
VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:12]

# No wrapper for calls from C, which nobody makes; no tests for a division by zero.
OPTIONS = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy", "_nrt": False}


def kernel(**options):
    """Compile a function that Python calls."""

    def compile_later(function):
        function.__qualname__ += f"_{VERSION}"
        return njit(cache=True, **OPTIONS | options)(function)

    return compile_later


def inner(**options):
    """Compile a function that only kernels call.

    Such a function has no wrapper for calls from Python, and no file of its own: its code is part
    of the kernels that call it. Called from Python, it runs uncompiled.
    """
    return register_jitable(**OPTIONS | options)


def inlined(function):
    """Make the source of a function part of the kernel that calls it.

    LLVM optimises a function once more in every library that it is linked to, so a function with
    much code and one caller is compiled in half the time without a library of its own.
    """
    return kernel(inline="always")(function)
