"""Which engine a fit gets: by where its counts are, and by the parameter `engine`."""

from __future__ import annotations

from typing import Any

from gapmf.counts import is_anndata, is_backed, is_dask
from gapmf.engines.streamed import PartedEngine, StreamedEngine
from gapmf.errors import InvalidInputError
from gapmf.io.count_blocks import BackedCounts, CountBlocks
from gapmf.io.shards import Shards
from gapmf.validation import shorten


def as_blocks(X: Any) -> CountBlocks | None:
    """Return counts in blocks, if X is shards or an AnnData in backed mode."""
    if isinstance(X, CountBlocks):
        return X
    return BackedCounts(X) if is_anndata(X) and is_backed(X) else None


def feature_frame(X: Any) -> Any:
    """Return an empty data frame with the names of the features, or X if that has its own."""
    if isinstance(X, CountBlocks) and X.feature_names is not None:
        import pandas as pd

        return pd.DataFrame(columns=X.feature_names)
    return X._meta if is_dask(X) and hasattr(X, "columns") else X


def is_out_of_memory(X: Any) -> bool:
    """Whether X is shards, an AnnData in backed mode, or a Dask collection."""
    return is_dask(X) or isinstance(X, CountBlocks) or (is_anndata(X) and is_backed(X))


def check_engine(engine: Any) -> None:
    """Raise unless this can be the parameter `engine`, whatever X is."""
    if engine not in ("local", "dask") and not _is_client(engine):
        raise InvalidInputError(
            "engine must be 'local', 'dask' or a distributed.Client, but is " + shorten(engine)
        )


def check_place(X: Any, engine: Any) -> int:
    """Raise unless this engine fits X, which is not in memory or not to be; return F."""
    if is_dask(X) and X.ndim != 2:
        raise InvalidInputError(
            f"X must be 2-D, samples × features, but is a Dask array of {X.ndim} dimension(s)"
        )
    if isinstance(engine, str) and engine == "local":
        if is_dask(X):
            raise InvalidInputError(
                "X is a Dask collection: use engine='dask', or pass X.compute() if it fits in "
                "memory"
            )
    elif not is_dask(X) and not isinstance(X, Shards):
        raise InvalidInputError(
            "engine='dask' fits Dask arrays, Dask data frames and shards, but X is "
            f"{type(X).__name__}: use dask.array.from_array, or gapmf.write_shards and "
            "gapmf.open_shards; or engine='local'"
        )
    return int(X.shape[1])


def open_engine(X: Any, engine: Any, n_jobs: int | None) -> PartedEngine:
    """Open an engine for X, which `check_place` has let pass."""
    blocks = as_blocks(X)
    if isinstance(engine, str) and engine == "local":
        assert blocks is not None
        return StreamedEngine(blocks, n_jobs)
    try:
        from gapmf.engines.cluster import DaskEngine, find_client
    except ImportError as error:
        raise ImportError(
            "engine='dask' needs the packages dask and distributed: pip install 'gapmf[dask]'"
        ) from error
    return DaskEngine(X, find_client(engine), n_jobs)


def _is_client(engine: Any) -> bool:
    return any(
        kind.__name__ == "Client" and kind.__module__.startswith("distributed")
        for kind in type(engine).__mro__
    )
