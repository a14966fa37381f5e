"""Arrays in a ZIP archive (.npz), each allocated when its size is known to be right.

Nothing is unpickled or evaluated. `archive` reads only what gapmf itself writes, byte for byte;
this reads what NumPy writes: compressed or not, and of any plain dtype.
"""

from __future__ import annotations

import math
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import ReadError
from gapmf.io.source import check_expansion, check_regular
from gapmf.validation import shorten

_DTYPE = re.compile(r"[<>|=]?([biuf]\d{1,2}|[SU]\d{1,2})", re.ASCII)
_LONGEST_HEADER = 10_000
_HEADER = re.compile(
    r"\{'descr': ('[^'\n]{1,99}'|\[.*\]), 'fortran_order': (True|False), "
    r"'shape': \(([\d, L]{0,99})\), ?\}\s*",
    re.ASCII,
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What zipfile raises on an archive that is not one: its own error, and those of what it calls.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # of methods and versions that it does not know
    RuntimeError,  # of encrypted members
    UnicodeDecodeError,  # of names
    ValueError,  # of offsets before the beginning
    OverflowError,
)


class Members:
    """The arrays of an archive by name, without .npy; a context manager."""

    def __init__(self, path: str) -> None:
        self.path, size = path, check_regular(path)
        self._file = open(path, "rb")  # noqa: SIM115
        try:
            with self._converted():
                self._archive = zipfile.ZipFile(self._file)
                infos = self._archive.infolist()
                if not all(0 <= info.header_offset < size for info in infos):
                    raise zipfile.BadZipFile("members outside the file")
                if not all(info.compress_type in _METHODS for info in infos):
                    raise zipfile.BadZipFile("members packed in a way that NumPy never does")
                check_expansion(path, sum(info.file_size for info in infos), size)
                self._infos = {info.filename.removesuffix(".npy"): info for info in infos}
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    @contextmanager
    def _converted(self) -> Iterator[None]:
        """The errors of zipfile as ours."""
        try:
            yield
        except ReadError:
            raise
        except _ZIP_ERRORS as error:
            raise ReadError(
                f"{self.path} is not a whole .npz archive ({error}): give a file that "
                "scipy.sparse.save_npz has written"
            ) from None

    def read(self, name: str, kinds: str, n_dimensions: int) -> NDArray[Any]:
        """The array of this name, which must have one of these kinds of dtype and this shape."""
        if name not in self._infos:
            listed = ", ".join(map(repr, self._infos)) or "nothing"
            raise ReadError(
                f"{self.path} has no array {name!r}, but {listed[:200]}: give a file that "
                "scipy.sparse.save_npz has written"
            )
        info = self._infos[name]
        with self._converted(), self._archive.open(info) as file:
            dtype, fortran, shape = self._header(file, name)
            if dtype.kind not in kinds or len(shape) != n_dimensions:
                raise ReadError(
                    f"{self.path}: {name!r} has dtype {dtype} and {len(shape)} dimensions, which "
                    "is not what scipy.sparse.save_npz writes"
                )
            n_bytes, n_there = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
            if n_bytes != n_there:
                raise self._damaged(name, f"needs {n_bytes} bytes for its shape, has {n_there}")
            flat = np.empty(math.prod(shape), dtype=dtype)
            self._fill(file, name, flat)
        if dtype.kind == "b":  # other bytes than 0 and 1 would be no bools
            flat = flat.view(np.uint8) != 0
        if dtype.kind == "U" and flat.view(f"{dtype.str[0]}u4").max(initial=0) > sys.maxunicode:
            raise self._damaged(name, "has letters that are not Unicode")
        array = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def _header(self, file: IO[bytes], name: str) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
        """The dtype, the order and the shape that an array says it has."""
        start = file.read(8)
        wide = start[6:7] in (b"\x02", b"\x03")
        length = int.from_bytes(file.read(4 if wide else 2), "little")
        if not start.startswith(b"\x93NUMPY") or length > _LONGEST_HEADER:
            raise self._damaged(name, "has no .npy header")
        text = file.read(length).decode("latin-1")
        parts = _HEADER.fullmatch(text)
        if parts is None:
            raise self._damaged(name, f"has the .npy header {shorten(text)}")
        descr, fortran, digits = parts.groups()
        if _DTYPE.fullmatch(descr.strip("'")) is None:
            pickled = "; gapmf never unpickles" if "O" in descr else ""
            raise ReadError(f"{self.path}: {name!r} has dtype {descr}, which is not plain{pickled}")
        try:
            dtype = np.dtype(descr.strip("'"))
        except TypeError:
            raise self._damaged(name, f"has the unknown dtype {descr}") from None
        shape = tuple(int(n) for n in re.findall(r"\d{1,18}", digits))
        return dtype, fortran == "True", shape

    def _fill(self, file: IO[bytes], name: str, array: NDArray[Any]) -> None:
        """Read an array's bytes, and after them the end, where zipfile compares check sums."""
        room, at = memoryview(array.view(np.uint8)), 0  # type: ignore[arg-type]
        while piece := file.read(1 << 20):
            if at + len(piece) > len(room):
                raise self._damaged(name, "has more bytes than its shape")
            room[at : at + len(piece)] = piece
            at += len(piece)
        if at != len(room):
            raise self._damaged(name, "is cut short")

    def _damaged(self, name: str, what: str) -> ReadError:
        return ReadError(
            f"{self.path} is damaged or cut short, {name!r} {what}: save or copy it again"
        )
