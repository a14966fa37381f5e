"""Any file or matrix → shards. Files are streamed where their format allows it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts, gene_names, is_anndata, is_backed, is_frame
from gapmf.errors import GapmfError, ReadError
from gapmf.io import find_format, read
from gapmf.io.count_blocks import BackedCounts, CountBlocks
from gapmf.io.dataframes import stream_delimited
from gapmf.io.documents import read_uci_head
from gapmf.io.matrices import (
    MATRIX,
    find_name_files,
    open_h5ad,
    read_market_head,
    read_market_names,
)
from gapmf.io.shards import SHARD_TOKENS, ShardWriter
from gapmf.io.table import Names, find_one, open_text
from gapmf.validation import check_whole

CHUNK_LINES = 1 << 20

Chunk = tuple[sp.csr_array, Iterable[Any] | None]


class Stream(NamedTuple):
    """Counts in chunks of consecutive samples, with the samples' names."""

    n_features: int
    feature_names: Names | None
    chunks: Iterable[Chunk]


class CannotStreamError(Exception):
    """A file must be read as a whole; the message is the reason."""


def write_shards(data: Any, path: Any, *, shard_tokens: int = SHARD_TOKENS, **options: Any) -> Path:
    """Write counts as a folder of shards, which `open_shards` reads one at a time.

    A shard is a Parquet file of consecutive samples; ``manifest.json`` has the names of the
    features, totals and checksums. The folder appears when it is complete.

    A UCI file, a MatrixMarket file whose entries are sorted by sample, a dense .csv or .tsv, and
    an .h5ad (its `X`, stored by rows) are streamed, so that memory does not grow with the number
    of samples. Other files are read as a whole, and a warning says so. Needs the package pyarrow,
    which the extra "parquet" installs.

    Parameters
    ----------
    data : str, path-like, matrix, data frame or AnnData
        A file or folder that `gapmf.read` reads, or counts in memory.
    path : str or path-like
        The folder to write. It must not exist, or be empty.
    shard_tokens : int, default=2_000_000
        A shard ends with the sample that brings its counts to this sum, or after 65,536 samples.
        A fit holds one shard per thread in memory: about 60 bytes per token.
    **options
        Options of `gapmf.read`, for a file.

    Returns
    -------
    Path
        The folder.

    See Also
    --------
    open_shards : Open the folder, to fit and transform.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf import read, write_shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_shards([[4, 1], [0, 2], [3, 1]], os.path.join(folder, "toy"))
    ...     print(sorted(os.listdir(path)), read(path).counts.sum())
    ['00000.parquet', 'manifest.json'] 11
    """
    shard_tokens = check_whole(shard_tokens, "shard_tokens")
    folder = Path(os.fsdecode(path))
    if not isinstance(data, (str, os.PathLike)):
        return _write(_from_memory(data), folder, shard_tokens)
    where = os.fsdecode(data)
    try:
        try:
            return _write(_open_stream(where, options), folder, shard_tokens)
        except CannotStreamError:
            raise
        except (GapmfError, OSError, ImportError):
            raise
        except Exception as error:  # what is wrong with the file, the reader below says better
            raise CannotStreamError("its entries are not as expected") from error
    except CannotStreamError as reason:
        warnings.warn(
            f"{where} is read into memory as a whole, because {reason}", UserWarning, stacklevel=2
        )
    table = read(where, **options)
    whole = Stream(table.counts.shape[1], table.feature_names, [(table.counts, table.sample_names)])
    return _write(whole, folder, shard_tokens)


def _write(stream: Stream, folder: Path, shard_tokens: int) -> Path:
    with ShardWriter(
        folder, stream.n_features, feature_names=stream.feature_names, shard_tokens=shard_tokens
    ) as writer:
        for counts, names in stream.chunks:
            writer.add(counts, names)
    return folder


def _from_memory(data: Any) -> Stream:
    """Return the counts of a matrix, a frame, an AnnData, or blocks."""
    if is_backed(data):
        data = BackedCounts(data)
    if isinstance(data, CountBlocks):
        chunks = ((data.block(i), data.block_names(i)) for i in range(data.n_blocks))
        return Stream(data.shape[1], data.feature_names, chunks)
    counts, features, samples = check_counts(data), None, None
    if is_anndata(data):
        features, samples = gene_names(data), data.obs_names
    elif is_frame(data):
        features = np.array([str(name) for name in data.columns], dtype=object)
    return Stream(counts.shape[1], features, [(counts, samples)])


def _open_stream(path: str, options: dict[str, Any]) -> Stream:
    """Open a file as a stream."""
    given = {name: value for name, value in options.items() if value is not None}
    kind = given.pop("format", None) or find_format(path)
    if filters := sorted({"stop_words", "min_df", "max_df"} & given.keys()):
        raise CannotStreamError(f"{filters[0]} needs all of it")
    encoding = given.get("encoding", "utf-8")
    if kind == "uci" and set(given) <= {"vocab", "encoding"}:
        path, (N, F, n_entries), names = read_uci_head(path, given.get("vocab"), encoding)
        return Stream(F, names, _entries(path, 3, (N, F), n_entries, turned=False, names=None))
    if kind == "mtx" and set(given) <= {"vocab", "transpose", "encoding"}:
        return _open_market(path, given.get("transpose"), given.get("vocab"), encoding)
    if kind == "h5ad" and not given:
        adata = open_h5ad(path, backed="r")
        if not is_backed(adata):
            raise CannotStreamError("its X is stored by columns")
        return _from_memory(adata)
    if kind in ("csv", "tsv") and not given.get("transpose"):
        delimiter = given.pop("delimiter", "," if kind == "csv" else "\t")
        given.pop("transpose", None)
        dense = stream_delimited(path, delimiter=delimiter, **given)
        if dense is None:
            raise CannotStreamError("triplets may be in any order")
        return Stream(*dense)
    raise CannotStreamError(f"format {kind!r} with these options has no streaming reader")


def _open_market(path: str, transpose: bool | None, vocab: str | None, encoding: str) -> Stream:
    path = find_one(path, MATRIX, ".mtx or .mtx.gz")
    head = read_market_head(path)
    if head.layout != "coordinate" or head.symmetry != "general" or head.field == "pattern":
        raise CannotStreamError("only entries 'row column count' of a general matrix are streamed")
    *shape, n_entries = head.sizes
    turned = any(find_name_files(path)) if transpose is None else transpose
    N, F = reversed(shape) if turned else shape
    features, samples = read_market_names(path, (N, F), vocab, encoding)
    chunks = _entries(path, head.n_above, (N, F), n_entries, turned=turned, names=samples)
    return Stream(F, features, chunks)


def _entries(
    path: str,
    n_above: int,
    shape: tuple[int, int],
    n_entries: int,
    *,
    turned: bool,
    names: Names | None,
) -> Iterator[Chunk]:
    """Yield the samples of lines 'sample feature count', from 1, which are sorted by sample.

    If the file is `turned`, its lines are 'feature sample count'.
    """
    import pandas as pd

    done, n_found = 0, 0  # samples; lines
    rest = np.empty((0, 3), dtype=np.int64)  # the last sample so far, which may go on
    with open_text(path) as stream:
        for _ in range(n_above):
            stream.readline()
        lines = pd.read_csv(
            stream, sep=r"\s+", header=None, names=range(4), chunksize=CHUNK_LINES,
            na_filter=False, engine="c", dtype={0: np.int64, 1: np.int64, 3: str},
        ) if n_entries else []  # fmt: skip
        for chunk in lines:
            n_found += len(chunk)
            found = np.concatenate([rest, _whole_lines(chunk, shape, turned)])
            if (np.diff(found[:, 0]) < 0).any() or found[0, 0] < done:
                raise CannotStreamError("its entries are not sorted by sample")
            last = int(found[-1, 0])
            ended = int(np.searchsorted(found[:, 0], last))
            if last > done:
                yield _to_rows(found[:ended], done, last, shape[1], names)
                done = last
            rest = found[ended:]
    if n_found != n_entries:
        raise CannotStreamError(f"it announces {n_entries} entries, but has {n_found}")
    yield _to_rows(rest, done, shape[0], shape[1], names)


def _whole_lines(chunk: Any, shape: tuple[int, int], turned: bool) -> NDArray[np.int64]:
    """Return (sample, feature, count) of lines, the first two from 0."""
    values = chunk[2].to_numpy()
    if chunk[3].any() or values.dtype.kind not in "if" or not (values == np.floor(values)).all():
        raise CannotStreamError("its entries are not three whole numbers")
    first, second = (chunk[i].to_numpy() - 1 for i in ((1, 0) if turned else (0, 1)))
    found = np.stack([first, second, values.astype(np.int64)], axis=1)
    if (found < 0).any() or (first >= shape[0]).any() or (second >= shape[1]).any():
        raise CannotStreamError("an entry is not a count within the announced matrix")
    return found


def _to_rows(
    found: NDArray[np.int64], first: int, last: int, n_features: int, names: Names | None
) -> Chunk:
    """Return the samples `first` to `last` as counts, from their entries."""
    places = found[:, 0] - first, found[:, 1]
    counts = sp.csr_array((found[:, 2], places), shape=(last - first, n_features))
    counts.sum_duplicates()
    counts.eliminate_zeros()
    if counts.data.max(initial=0) > 2**53:
        raise ReadError("a count is more than 2**53: divide the counts by a common factor")
    return counts, None if names is None else names[first:last]
