"""Names of random streams, from the content of a sample.

What is drawn for a sample then depends on the seed and on its counts alone: not on the samples
beside it, on their order, or on who computes them.
"""

from __future__ import annotations

import hashlib

import numpy as np
import scipy.sparse as sp

CHAINS = 1 << 24  # purposes below it are numbers of particles
IMPORTANCE = 2 << 24
CHIB = 3 << 24
ACTIVATIONS = 4 << 24
REVERSE = 5 << 24
PILOT = 6 << 24
GUIDE = 7 << 24


def stream_names(rows: sp.csr_array, n: int, purpose: int, how_many: int) -> list[int]:
    """So many names of 64 bits for row n: hashes of its counts and of the purpose."""
    lo, hi = rows.indptr[n], rows.indptr[n + 1]
    content = np.concatenate([rows.indices[lo:hi], rows.data[lo:hi]]).astype("<i8").tobytes()
    person = purpose.to_bytes(4, "little")
    return [
        int.from_bytes(
            hashlib.blake2b(content, digest_size=8, salt=bytes([i]), person=person).digest(),
            "little",
        )
        for i in range(how_many)
    ]
