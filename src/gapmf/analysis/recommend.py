"""Recommendations: the features with the highest expected counts in each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gapmf.parallel import Progress, for_each
from gapmf.types import Array, Index

_BLOCK = 1 << 22  # expected counts that a thread holds at once: 32 MB
_SPARE = 8  # candidates beyond n: more than this many near-ties are looked for in the whole row
_NEAR = 1.0 - 1e-9  # products of matrices are less exact than this, but not by much
_SHOWN = 10  # samples in the printed form


@dataclass(frozen=True, repr=False, eq=False)
class Recommendations:
    """Features with the highest expected counts in each sample, the highest first.

    Attributes
    ----------
    items : ndarray of int of shape (n_samples, n)
        Numbers of the features (columns of X). Of features with the same expected count, the
        first comes first. -1 where there is none left: all others were seen, or their expected
        count is 0.
    expected : ndarray of shape (n_samples, n)
        Expected counts of these features given the sample's counts; nan where `items` is -1.
    feature_names : ndarray of str of shape (n_features,) or None
        Names of the features, if the estimator was fitted with names.
    """

    items: Index
    expected: Array
    feature_names: NDArray[np.object_] | None = None

    def __repr__(self) -> str:
        return f"Recommendations({self.items.shape[0]:,} samples × {self.items.shape[1]} items)"

    def __str__(self) -> str:
        lines = [f"{'sample':>8}  items, and their expected counts"]
        for n, row in enumerate(self.to_lists()[:_SHOWN]):
            listed = ", ".join(f"{name} {value:.3g}" for name, value in row)
            lines.append(f"{n:>8}  {listed or 'none left'}")
        if len(self.items) > _SHOWN:
            lines.append(f"{'…':>8}  {len(self.items) - _SHOWN:,} more")
        return "\n".join(lines)

    def to_lists(self) -> list[list[tuple[Any, float]]]:
        """Return the items of each sample by name (or by number), with their expected counts.

        Returns
        -------
        list of lists of (name, expected count)
            One list per sample. It is shorter than n if there are fewer items left.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1, 0], [0, 2, 2], [3, 1, 1]])
        >>> [name for name, _ in est.recommend([[0, 3, 0]]).to_lists()[0]]
        [0, 2]
        """
        names = self.feature_names
        return [
            [
                (int(f) if names is None else names[f], float(value))
                for f, value in zip(items, expected, strict=True)
                if f >= 0
            ]
            for items, expected in zip(self.items, self.expected, strict=True)
        ]


def recommend(
    rates: Array,
    W: Array,
    n: int,
    seen: sp.csr_array | None,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[Index, Array]:
    """Return the n features with the highest [W h]_f of each sample, and these expected counts.

    Blocks of samples are computed in threads, so that memory does not grow with N × F. A product
    of matrices finds candidates; their expected counts are then added up in a fixed order, so that
    a sample's result does not depend on the samples beside it.

    Parameters
    ----------
    rates : ndarray of shape (n_samples, n_components)
        Posterior mean activations; if samples have exposures, times these.
    W : ndarray of shape (n_features, n_components)
        Dictionary.
    n : int
        Number of features per sample.
    seen : csr_array of shape (n_samples, n_features) or None
        Features to leave out: those with counts here.
    n_jobs : int or None, default=None
        Number of threads.
    progress : callable, default=None
        Called with the part of the work that is done.

    Returns
    -------
    items : ndarray of int of shape (n_samples, n)
        Features, -1 where there is none left.
    expected : ndarray of shape (n_samples, n)
        Expected counts, nan where there is none left.
    """
    N, (F, K) = rates.shape[0], W.shape
    n_candidates = min(n + _SPARE, F)
    items, expected = np.full((N, n), -1, dtype=np.int64), np.full((N, n), np.nan)
    at_once = max(1, _BLOCK // max(F, n_candidates * K))

    def work(start: int) -> None:
        block = slice(start, min(start + at_once, N))
        means = rates[block] @ W.T
        if seen is not None:
            part = seen[block]
            means[np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices] = 0.0
        top = np.argpartition(means, F - n_candidates, axis=1)[:, F - n_candidates :]
        values = np.einsum("mk,mck->mc", rates[block], W[top])
        values[np.take_along_axis(means, top, axis=1) == 0.0] = 0.0  # seen
        top, values = _sorted(top, values, min(n, F))
        if n_candidates < F:
            last = values[:, -1]
            near = means >= last[:, None] * _NEAR
            for row in np.flatnonzero((near.sum(axis=1) > n_candidates) & (last > 0.0)):
                some = np.flatnonzero(near[row])[None]
                exact = np.einsum("mk,mck->mc", rates[block][row][None], W[some])
                top[row], values[row] = (found[0] for found in _sorted(some, exact, n))
        kept = values > 0.0
        items[block, : top.shape[1]] = np.where(kept, top, -1)
        expected[block, : top.shape[1]] = np.where(kept, values, np.nan)

    with threadpool_limits(1, "blas"):  # blocks are computed in parallel already
        for_each(work, range(0, N, at_once), n_jobs, progress)
    return items, expected


def _sorted(items: Index, values: Array, n: int) -> tuple[Index, Array]:
    """Return the first n of each row, by falling values, then by rising numbers."""
    order = np.lexsort((items, -values), axis=1)[:, :n]
    return np.take_along_axis(items, order, axis=1), np.take_along_axis(values, order, axis=1)
