"""What a peer is: a function that fits, and a fitted model that infers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers.watch import Watch

Infer = Callable[[sp.csr_array], np.ndarray]


@dataclass(frozen=True)
class Fitted:
    """A fitted model, as all peers are judged.

    `components` (K × F) has rows that sum to one. `infer` takes the shown counts of new samples
    (N × F) and returns proportions over components (N × K), by the peer's own inference. Rows sum
    to one, or are zero where the peer has nothing to say. `passes` counts sweeps or passes over
    all samples so far. `faster` has further forms of `infer`, by the settings that they differ in.
    """

    components: np.ndarray
    infer: Infer
    passes: float
    notes: dict[str, Any] = field(default_factory=dict)
    faster: dict[str, Infer] = field(default_factory=dict)


@dataclass(frozen=True)
class Peer:
    """One way to fit.

    `fit(train, K, seed, threads, watch)` returns a `Fitted`. It calls `watch(passes, make)` after
    each pass, or as often as the peer can be looked at, and stops when that returns True. When the
    data have the form that the package reads, and before it works, it calls `watch.begin()`.
    Before all this, every peer fits a few samples; `warm_up(few, K, threads)` is for a peer that
    has more to compile. `has_threads` says whether a second thread can be used.
    """

    name: str
    package: str
    settings: str
    fit: Callable[[sp.csr_array, int, int, int, Watch], Fitted]
    warm_up: Callable[[sp.csr_array, int, int], None] | None = None
    has_threads: bool = True


def rows_to_one(x: Any) -> np.ndarray:
    """Return rows divided by their sums; rows of zeros stay zero."""
    x = np.maximum(np.asarray(x, dtype=float), 0.0)
    total = x.sum(axis=1, keepdims=True)
    return np.divide(x, total, out=np.zeros_like(x), where=total > 0)


def from_factors(W: Any, H: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return components and proportions of a factorisation X ≈ H W, with W of K × F.

    Component k has the share h_nk Σ_f w_kf of the expected counts of sample n.
    """
    W = np.maximum(np.asarray(W, dtype=float), 0.0)
    return rows_to_one(W), rows_to_one(np.asarray(H, dtype=float) * W.sum(axis=1))
