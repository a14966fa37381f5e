"""Type aliases that many modules share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.int64]
Tree: TypeAlias = dict[str, Any]
"""Nested dictionaries and lists of plain values and arrays."""
