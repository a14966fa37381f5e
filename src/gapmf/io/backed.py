"""AnnData in backed mode: cells × genes in a file, read in blocks of cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.counts import check_counts, gene_names, is_anndata
from gapmf.io.count_blocks import CountBlocks
from gapmf.io.table import Names, as_names

BLOCK_ENTRIES = 1 << 20  # in a block: about the number that a shard has
BLOCK_ROWS = 1 << 16


def is_backed(X: Any) -> bool:
    """Whether X is an AnnData whose `X` is in a file, by rows."""
    if not is_anndata(X) or not X.isbacked or X.is_view:
        return False
    return getattr(X.X, "format", "dense") in ("csr", "dense")


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
