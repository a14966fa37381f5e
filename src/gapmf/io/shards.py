"""Shards: a folder of Parquet files of consecutive samples, with a manifest.

A shard has one row per sample: the list of its features, the list of their counts, and its name if
samples have names. The offsets, features and counts of these lists are the three arrays of a CSR
matrix, so that reading copies next to nothing; pandas, polars and DuckDB read the same files. See
docs/file-format.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf import __version__
from gapmf.csr import Digest
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.count_blocks import CountBlocks, Summary, summarise
from gapmf.io.table import Names, Table, as_names
from gapmf.validation import shorten

FORMAT, VERSION = "gapmf-shards", 1
MANIFEST = "manifest.json"
SHARD_TOKENS = 2_000_000
MAX_ROWS = 1 << 16  # in a shard: the state of their chains is held in memory at once
_FILE = re.compile(r"[A-Za-z0-9_-]+\.parquet")


def open_shards(path: Any) -> Shards:
    """Open a folder of shards, as `gapmf shard` and `write_shards` write it.

    Only the manifest is read. These methods of `GammaPoissonMF` take the result in place of a
    matrix: `fit`, `resume`, `partial_fit`, `fit_transform`, `transform`, `proportions`, `score`,
    `score_samples` and `log_likelihood`. They read one shard at a time; a fit holds one shard per
    thread in memory. Needs the package pyarrow, which the extra "parquet" installs.

    Parameters
    ----------
    path : str or path-like
        The folder.

    Returns
    -------
    Shards
        With `shape`, `feature_names` and `starts`. Iterating gives CSR matrices, one per shard.

    See Also
    --------
    write_shards : Write such a folder.
    read : Read all of it into memory.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf import open_shards, write_shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_shards([[4, 1], [0, 2], [3, 1]], os.path.join(folder, "toy"))
    ...     print([block.shape for block in open_shards(path)])
    [(3, 2)]
    """
    return Shards(path)


class Shards(CountBlocks):
    """A folder of shards, which are read one at a time.

    Parameters
    ----------
    path : str or path-like
        The folder.

    Attributes
    ----------
    path : Path
        The folder.
    shape : tuple of int
        Numbers of samples and of features.
    starts : ndarray of int of shape (n_blocks + 1,)
        Shard i has the samples starts[i] to starts[i + 1].
    feature_names : ndarray of str objects or None
        Names of the features.
    has_sample_names : bool
        Whether samples have names.

    See Also
    --------
    open_shards : Open a folder.
    write_shards : Write a folder.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf import Shards, write_shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
    ...     print(Shards(path))
    Shards of 2 samples × 2 features in 1 blocks
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(os.fsdecode(path))
        with _manifest_errors(self.path):
            content = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ValueError(f"its format is {shorten(content['format'])}")
            if content["version"] > VERSION:
                raise ReadError(
                    f"{self.path / MANIFEST} has version {content['version']}, but this gapmf "
                    f"reads versions up to {VERSION}: upgrade gapmf"
                )
            self._read_manifest(content)

    def _read_manifest(self, content: dict[str, Any]) -> None:
        N, F = content["n_samples"], content["n_features"]
        parts = content["shards"]
        self._files: list[tuple[str, str, int]] = [
            (part["file"], part["sha256"], part["n_nonzero"]) for part in parts
        ]
        rows = np.array([part["n_samples"] for part in parts], dtype=np.int64)
        totals = np.array(content["feature_totals"], dtype=np.int64)
        names = content["feature_names"]
        wrong = [file for file, _, _ in self._files if not _FILE.fullmatch(file)]
        if wrong:
            raise ValueError(f"{shorten(wrong[0])} is not the name of a shard")
        nonzero = sum(part[2] for part in self._files)
        sizes = (rows.sum(), totals.size, totals.sum(), nonzero)
        said = (N, F, content["n_tokens"], content["n_nonzero"])
        if sizes != said or (rows < 0).any() or (totals < 0).any() or not len(rows):
            raise ValueError(f"its parts add up to {sizes}, and not to {said}")
        if names is not None and len(names) != F:
            raise ValueError(f"it has {len(names)} names of {F} features")
        self.shape = (int(N), int(F))
        self.starts = np.concatenate([[0], np.cumsum(rows)])
        self.feature_names = None if names is None else as_names(names)
        self.has_sample_names = bool(content["sample_names"])
        digest = content["digest"]
        self.__dict__["summary"] = Summary(
            int(N),
            totals,
            int(nonzero),
            int(content["largest_sample"]),
            Digest(int(digest[16:], 16), int(digest[:16], 16)),
        )

    def file(self, i: int) -> Path:
        """Return the path of a shard.

        Parameters
        ----------
        i : int
            Number of the shard, from 0.

        Returns
        -------
        Path
            The Parquet file.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import open_shards, write_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
        ...     print(open_shards(path).file(0).name)
        00000.parquet
        """
        return self.path / self._files[i][0]

    def block(self, i: int) -> sp.csr_array:
        """Read a shard. An error names its file if it is missing, damaged or another one.

        Parameters
        ----------
        i : int
            Number of the shard, from 0.

        Returns
        -------
        csr_array of int64 of shape (n, n_features)
            Its counts, with sorted indices.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import open_shards, write_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
        ...     print(open_shards(path).block(0).toarray().tolist())
        [[4, 1], [0, 2]]
        """
        table = self._table(i, ["features", "counts"])
        features, counts = (table[name].combine_chunks() for name in table.column_names)
        indptr = features.offsets.to_numpy().astype(np.int64)
        indices = features.values.to_numpy()[indptr[0] : indptr[-1]].astype(np.int32, copy=False)
        data = counts.values.to_numpy()[indptr[0] : indptr[-1]].astype(np.int64)
        same = np.array_equal(indptr, counts.offsets.to_numpy())
        shape = (int(self.starts[i + 1] - self.starts[i]), self.shape[1])
        if not (same and _is_canonical(indptr - indptr[0], indices, data, shape)):
            raise ReadError(
                f"{self.file(i)} is not a shard of {shape[0]} samples with {shape[1]} features: "
                "the folder was changed; write the shards again"
            )
        return sp.csr_array((data, indices, indptr - indptr[0]), shape=shape)

    def block_names(self, i: int) -> Names | None:
        """Read the names of the samples of a shard.

        Parameters
        ----------
        i : int
            Number of the shard, from 0.

        Returns
        -------
        ndarray of str objects of shape (n,) or None
            The names; None if samples have none.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import open_shards, write_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
        ...     print(open_shards(path).block_names(0))
        None
        """
        if not self.has_sample_names:
            return None
        return as_names(self._table(i, ["sample"])["sample"].to_pylist())

    def _table(self, i: int, columns: list[str]) -> Any:
        parquet = _pyarrow_parquet()
        file, checksum, _ = self._files[i]
        path = self.path / file
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ReadError(
                f"{path} cannot be read ({error.strerror}): it is shard {i} of {self.path}; "
                "restore it, or write the shards again"
            ) from error
        if hashlib.sha256(content).hexdigest() != checksum:
            raise ReadError(
                f"{path} does not match its checksum in {MANIFEST}: restore it, or write the "
                "shards again"
            )
        try:
            import pyarrow as pa

            return parquet.read_table(pa.BufferReader(content), columns=columns, use_threads=False)
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise ReadError(f"{path} is not a shard ({error}): write the shards again") from error

    def sample_names(self) -> Names | None:
        """Read the names of all samples.

        Returns
        -------
        ndarray of str objects of shape (n_samples,) or None
            The names; None if samples have none.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import open_shards, write_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
        ...     print(open_shards(path).sample_names())
        None
        """
        parts = [self.block_names(i) for i in range(self.n_blocks)]
        names = [part for part in parts if part is not None]
        return np.concatenate(names) if names else None

    def to_table(self) -> Table:
        """Read everything into memory.

        Returns
        -------
        Table
            Counts and names.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import open_shards, write_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
        ...     print(open_shards(path).to_table().counts.sum())
        7
        """
        counts = sp.csr_array(sp.vstack(list(self), format="csr"))
        return Table(counts, self.feature_names, self.sample_names())

    def to_dask(self) -> Any:
        """Return a Dask array of sparse blocks, one per shard, which are read when computed.

        All workers must find the folder at the same path.

        Returns
        -------
        dask.array.Array
            Counts, samples × features.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import open_shards, write_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_shards([[4, 1], [0, 2]], os.path.join(folder, "toy"))
        ...     print(open_shards(path).to_dask().shape)
        (2, 2)
        """
        import dask.array as da
        from dask.delayed import delayed

        block, meta = delayed(self).block, sp.csr_array((0, 0), dtype=np.int64)
        parts = [
            da.from_delayed(block(i), (int(n), self.shape[1]), meta=meta)
            for i, n in enumerate(np.diff(self.starts))
        ]
        return da.concatenate(parts)


def read_shards(path: str) -> Table:
    """Read all shards of a folder into memory."""
    return Shards(path).to_table()


def is_shards(path: Any) -> bool:
    """Tell whether a path is a folder of shards."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def _is_canonical(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.int64],
    shape: tuple[int, int],
) -> bool:
    """Tell whether these are counts in CSR form. The kernels trust them."""
    if indptr.size != shape[0] + 1 or indices.size != data.size or (np.diff(indptr) < 0).any():
        return False
    if indices.size == 0:
        return True
    rises = np.diff(indices) > 0
    begins = indptr[(indptr > 0) & (indptr < indices.size)]
    rises[begins - 1] = True
    return bool(rises.all() and indices.min() >= 0 and indices.max() < shape[1] and data.min() > 0)


class _manifest_errors:  # noqa: N801
    """Say of a manifest that is wrong what is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        if not (self._path / MANIFEST).is_file():
            os.stat(self._path)  # that it is missing comes first
            raise ReadError(
                f"{self._path} has no {MANIFEST}, so it is not a folder of shards: write one by "
                f"`gapmf shard DATA -o {self._path}`"
            )

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        wrong = (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError)
        if isinstance(error, wrong) and not isinstance(error, InvalidInputError):
            what = f"has no {error}" if isinstance(error, KeyError) else f"is wrong: {error}"
            raise ReadError(
                f"{self._path / MANIFEST} {what}; restore it, or write the shards again"
            ) from error


class ShardWriter:
    """Writes shards to a temporary folder, which gets its name when all is written.

    Samples are given in any portions: where a shard ends depends on the samples alone.
    """

    def __init__(
        self,
        path: Any,
        n_features: int,
        *,
        feature_names: Iterable[Any] | None = None,
        shard_tokens: int = SHARD_TOKENS,
    ) -> None:
        self.path = Path(os.fsdecode(path)).absolute()
        _pyarrow_parquet()
        _check_new_folder(self.path)
        self._n_features, self._shard_tokens = n_features, shard_tokens
        self._names = None if feature_names is None else [str(name) for name in feature_names]
        self._parts: list[dict[str, Any]] = []
        self._rows: list[sp.csr_array] = []  # of the next shard
        self._row_names: list[str] = []
        self._has_names = False
        self._n_rows = self._n_tokens = 0
        self._summary: Summary | None = None
        self._temporary = self.path.parent / f".gapmf-{secrets.token_hex(8)}"

    def __enter__(self) -> ShardWriter:
        self._temporary.mkdir()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def add(self, counts: sp.csr_array, names: Iterable[Any] | None = None) -> None:
        """Add samples: canonical CSR of int64; with names, if those before have them."""
        ends = np.concatenate([[0], np.cumsum(counts.data, dtype=np.int64)])[counts.indptr]
        all_names = None if names is None else list(names)
        first = 0
        while first < counts.shape[0]:
            room = self._shard_tokens - self._n_tokens
            full = int(np.searchsorted(ends, ends[first] + room, side="left"))
            last = min(max(full, first + 1), first + MAX_ROWS - self._n_rows, counts.shape[0])
            self._rows.append(counts[first:last])
            if all_names is not None:
                self._row_names += map(str, all_names[first:last])
                self._has_names = True
            self._n_rows += last - first
            self._n_tokens += int(ends[last] - ends[first])
            if self._n_tokens >= self._shard_tokens or self._n_rows >= MAX_ROWS:
                self._write_shard()
            first = last

    def _write_shard(self) -> None:
        import pyarrow as pa

        counts = sp.csr_array(sp.vstack(self._rows, format="csr"))
        first = 0 if self._summary is None else self._summary.n_samples
        here = summarise(counts, first)
        self._summary = here if self._summary is None else self._summary + here
        offsets = pa.array(counts.indptr.astype(np.int32))
        columns = {
            "features": pa.ListArray.from_arrays(offsets, counts.indices.astype(np.int32)),
            "counts": pa.ListArray.from_arrays(offsets, counts.data.astype(np.int64)),
        }
        if self._has_names:
            columns = {"sample": pa.array(self._row_names)} | columns
        file = f"{len(self._parts):05d}.parquet"
        _pyarrow_parquet().write_table(
            pa.table(columns),
            self._temporary / file,
            compression="zstd",
            use_dictionary=["counts.list.element"],
            column_encoding={"features.list.element": "DELTA_BINARY_PACKED"},
            row_group_size=MAX_ROWS,
        )
        content = (self._temporary / file).read_bytes()
        self._parts.append(
            {
                "file": file,
                "n_samples": here.n_samples,
                "n_nonzero": here.n_nonzero,
                "n_tokens": here.n_tokens,
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        )
        self._rows, self._row_names, self._n_rows, self._n_tokens = [], [], 0, 0

    def _finish(self) -> None:
        if self._rows:
            self._write_shard()
        whole = self._summary
        if whole is None:
            raise InvalidInputError("there are no samples, so there are no shards to write")
        content = {
            "format": FORMAT,
            "version": VERSION,
            "gapmf": __version__,
            "n_samples": whole.n_samples,
            "n_features": self._n_features,
            "n_nonzero": whole.n_nonzero,
            "n_tokens": whole.n_tokens,
            "largest_sample": whole.largest,
            "digest": f"{whole.digest.high:016x}{whole.digest.low:016x}",
            "sample_names": self._has_names,
            "shards": self._parts,
            "feature_totals": whole.totals.tolist(),
            "feature_names": self._names,
        }
        text = json.dumps(content, ensure_ascii=False, indent=0)
        (self._temporary / MANIFEST).write_text(text, encoding="utf-8")
        for file in self._temporary.iterdir():
            with open(file, "r+b") as stream:
                os.fsync(stream.fileno())
        _check_new_folder(self.path)  # it may have been made meanwhile
        if self.path.exists():
            self.path.rmdir()
        self._temporary.rename(self.path)


def _check_new_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise InvalidInputError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InvalidInputError(f"{path} exists: remove it, or name another folder for the shards")


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(
            "shards need the package pyarrow: pip install 'gapmf[parquet]'"
        ) from error
    return parquet
