"""Counts that are not all in memory: blocks of consecutive samples, read one after another.

These are files (shards, or an AnnData in backed mode) or Dask collections, whose blocks workers
compute. Dask itself is not imported.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts, gene_names, is_dask_frame
from gapmf.csr import Digest, content_digest
from gapmf.io.table import Names, as_names


@dataclass(frozen=True)
class Summary:
    """What a fit must know of all samples before it begins. Summaries of parts can be added."""

    n_samples: int
    totals: NDArray[np.int64]
    """(F,): Σ_n v_fn."""
    n_nonzero: int
    largest: int
    """max_n Σ_f v_fn."""
    digest: Digest
    """Depends on every count and its place, but not on how samples are divided into blocks."""

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.n_samples + other.n_samples,
            self.totals + other.totals,
            self.n_nonzero + other.n_nonzero,
            max(self.largest, other.largest),
            self.digest + other.digest,
        )

    @property
    def n_tokens(self) -> int:
        """The sum of all counts."""
        return int(self.totals.sum())


def summarise(counts: sp.csr_array, first_sample: int = 0) -> Summary:
    """Summarise counts whose row 0 has this number in the whole data."""
    N, F = counts.shape
    totals = np.zeros(F, dtype=np.int64)
    np.add.at(totals, counts.indices, counts.data)
    ends = np.concatenate([[0], np.cumsum(counts.data, dtype=np.int64)])
    sizes = np.diff(ends[counts.indptr])
    return Summary(
        N, totals, counts.nnz, int(sizes.max(initial=0)), content_digest(counts, first_sample)
    )


class CountBlocks(ABC):
    """Counts, N × F, in blocks of consecutive samples. Iterating reads one block at a time.

    Attributes
    ----------
    shape : tuple of int
        Numbers of samples and of features.
    starts : ndarray of int of shape (n_blocks + 1,)
        Block i has the samples starts[i] to starts[i + 1].
    feature_names : ndarray of str objects or None
        Names of the features.
    """

    shape: tuple[int, int]
    starts: NDArray[np.int64]
    feature_names: Names | None = None

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self.starts.size) - 1

    @abstractmethod
    def block(self, i: int) -> sp.csr_array:
        """Read block i: canonical CSR of int64."""

    def block_names(self, i: int) -> Names | None:
        """Return the names of the samples of block i, if they have names."""
        return None

    def __iter__(self) -> Iterator[sp.csr_array]:
        for i in range(self.n_blocks):
            yield self.block(i)

    @cached_property
    def summary(self) -> Summary:
        """Totals of features and the like: by default from one pass over the blocks."""
        blocks = zip(self, self.starts.tolist(), strict=False)
        first, *others = (summarise(block, start) for block, start in blocks)
        return functools.reduce(operator.add, others, first)

    @property
    def nnz(self) -> int:
        """Number of counts above 0."""
        return self.summary.n_nonzero

    def sum(self) -> int:
        """Return the sum of all counts.

        Returns
        -------
        int
            Number of tokens.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import open_shards, write_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
        ...     print(open_shards(path).sum())
        7
        """
        return self.summary.n_tokens

    def __repr__(self) -> str:
        N, F = self.shape
        return f"{type(self).__name__} of {N:,} samples × {F:,} features in {self.n_blocks} blocks"


BLOCK_ENTRIES = 1 << 20  # in a block: about the number that a shard has
BLOCK_ROWS = 1 << 16


class BackedCounts(CountBlocks):
    """The counts of an AnnData in backed mode, by blocks of cells."""

    def __init__(self, adata: Any) -> None:
        self._adata = adata
        N, F = adata.shape
        self.shape = (int(N), int(F))
        self.feature_names = as_names(gene_names(adata))
        self._labels = self.feature_names.tolist()
        values = adata.X
        if hasattr(values, "group"):  # sparse
            ends = np.asarray(values.group["indptr"][:], dtype=np.int64)
        else:
            ends = np.arange(N + 1) * max(F // 8, 1)  # dense: most are 0
        cuts = np.searchsorted(ends, np.arange(BLOCK_ENTRIES, ends[-1], BLOCK_ENTRIES))
        cuts = np.concatenate([cuts, np.arange(0, N, BLOCK_ROWS), [0, N]])
        self.starts = np.unique(cuts).astype(np.int64)

    def block(self, i: int) -> sp.csr_array:
        """Read block i."""
        first, last = int(self.starts[i]), int(self.starts[i + 1])
        name = f"adata.X[{first}:{last}]"
        return check_counts(self._adata.X[first:last], name=name, labels=self._labels)

    def block_names(self, i: int) -> Names | None:
        """Return the names of the cells of block i."""
        return as_names(self._adata.obs_names[self.starts[i] : self.starts[i + 1]])


def row_blocks(X: Any) -> list[Any]:
    """Return the blocks of rows of a Dask collection, as delayed objects."""
    if is_dask_frame(X):
        return list(X.to_delayed())
    return list(in_rows(X).to_delayed().ravel())


def in_rows(X: Any) -> Any:
    """Return a Dask array whose blocks are whole rows."""
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def counts_of_block(block: Any, n_features: int, i: int) -> sp.csr_array:
    """Return a computed block as counts; an error names it."""
    if block.shape[0] == 0:
        return sp.csr_array((0, n_features), dtype="int64")
    return check_counts(block, n_features=n_features, name=f"block {i} of X", owner="X")
