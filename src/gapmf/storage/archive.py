"""Trees of plain values and arrays in one file, and files that are written atomically.

A gapmf file is an uncompressed ZIP archive of ``gapmf.json`` and one ``.npy`` per array: see
docs/file-format.md. Nothing in it is executed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError, StorageError
from gapmf.validation import shorten

Kind: TypeAlias = Literal["model", "checkpoint"]
FilePath: TypeAlias = str | os.PathLike[str]

FORMAT = 1
_DTYPES = re.compile(r"<f8|<f4|<i8|<i4|<u8|\|b1|<U[1-9]\d*")


def write(path: FilePath, kind: Kind, content: Any, *, version: str) -> None:
    """Write a tree to a file, atomically. The same tree gives the same bytes.

    `content` is None, bool, int, float, str, an array of float64, int64, int32, uint64, bool or
    str, or a list or dictionary (with str keys) of these. `version` is that of gapmf.
    """
    arrays: list[NDArray[Any]] = []
    head = {"format": "gapmf", "version": FORMAT, "kind": kind, "gapmf": version}
    text = json.dumps(head | {"content": _encode(content, "content", arrays)})
    write_atomically(path, lambda temporary: _write_members(temporary, text, arrays))


def read(path: FilePath, kind: Kind) -> Any:
    """Read a tree from a file.

    A file that is damaged, foreign, of a newer format or of the other kind raises a StorageError;
    one that is missing or cannot be opened raises an OSError.
    """
    found = read_header(path)["kind"]
    if found != kind:
        advice = "load it" if found == "model" else "resume the fit, and save its model"
        raise StorageError(f"{path} is a {found}, not a {kind}: {advice}")
    with _opened(path) as archive:
        if (damaged := archive.testzip()) is not None:  # before anything in it is parsed
            raise ValueError(f"{damaged} does not match its checksum")

        def decode(node: dict[str, Any]) -> Any:
            if "$float" in node:
                return float(node["$float"])
            if "$array" in node:
                with archive.open(node["$array"]) as file:
                    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
                return array.astype(array.dtype.newbyteorder("="), copy=False)
            return node

        return json.loads(archive.read("gapmf.json"), object_hook=decode)["content"]


def read_header(path: FilePath) -> dict[str, Any]:
    """Read "format", "version" (of the format), "kind" and "gapmf" (the version that wrote it)."""
    with _opened(path) as archive:
        tree = json.loads(archive.read("gapmf.json"))
        header = {name: tree[name] for name in ("format", "version", "kind", "gapmf")}
        if header["version"] > FORMAT:
            raise StorageError(
                f"{path} was written by gapmf {header['gapmf']} in format {header['version']}, but "
                f"this version reads formats up to {FORMAT}: upgrade gapmf"
            )
        if header["format"] != "gapmf" or header["kind"] not in get_args(Kind):
            raise ValueError(f"gapmf.json says {shorten(header)}")
        return header


def _encode(node: Any, place: str, arrays: list[NDArray[Any]]) -> Any:
    """Convert a node to JSON's types, and append its arrays to `arrays`."""
    if isinstance(node, np.generic):
        node = node.item()
    kind = type(node)  # exactly: an instance of a subclass would not come back as one
    if node is None or kind in (bool, int, str):
        return node
    if kind is float:
        return node if math.isfinite(node) else {"$float": str(node)}
    if kind is list:
        return [_encode(part, f"{place}[{i}]", arrays) for i, part in enumerate(node)]
    if kind is dict and all(type(key) is str and not key.startswith("$") for key in node):
        return {key: _encode(part, f"{place}.{key}", arrays) for key, part in node.items()}
    if kind is np.ndarray and _DTYPES.fullmatch((dtype := node.dtype.newbyteorder("<")).str):
        arrays.append(np.asarray(node, dtype, order="C"))
        return {"$array": f"{len(arrays) - 1:03d}.npy"}
    shown = f"an array of {node.dtype}" if kind is np.ndarray else shorten(node)
    raise StorageError(
        f"{place} is {shown}, which a gapmf file cannot hold: use None, bool, int, float, str, "
        "arrays of float64, float32, int64, int32, uint64, bool or str, lists, or dictionaries "
        "with str keys"
    )


def _write_members(path: str, text: str, arrays: list[NDArray[Any]]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(_member("gapmf.json"), text)
        for i, array in enumerate(arrays):
            info = _member(f"{i:03d}.npy")
            info.file_size = array.nbytes + 1024  # an upper bound, for the choice of ZIP64
            with archive.open(info, "w") as file:
                npy.write_array(file, array, version=(1, 0), allow_pickle=False)


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)  # of 1980-01-01, and the same on every system
    info.create_system, info.external_attr = 3, 0o100644 << 16
    return info


@contextlib.contextmanager
def _opened(path: FilePath) -> Iterator[zipfile.ZipFile]:
    """Open an archive; errors name the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (StorageError, MemoryError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # zipfile, json and NumPy raise a dozen kinds on damaged bytes
        raise StorageError(
            f"{path} is not a gapmf file, or is damaged ({error}): give one that gapmf saved, "
            "restore it from a backup, or fit again"
        ) from error


def write_atomically(path: FilePath, write: Callable[[str], Any]) -> None:
    """Call `write` with the path of an empty temporary file, which then replaces `path`.

    The temporary file has the same folder and suffix. If anything fails, `path` is as before. A
    symbolic link stays, and its target is replaced. A file that is replaced keeps its permissions.
    """
    target = Path(os.path.realpath(path))
    target.parent.stat()  # the error names a missing folder, rather than the temporary file
    mode = None
    if target.exists():
        if not target.is_file():  # to replace /dev/null would be a pity
            raise StorageError(f"{path} is a folder, a device or a pipe: name an ordinary file")
        mode = stat.S_IMODE(target.stat().st_mode)
        open(target, "r+b").close()  # raises if it is protected
    temporary = str(target.parent / f".gapmf-{secrets.token_hex(8)}{target.suffix}")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    try:
        # A new file gets what the umask leaves; that of a private file is never public.
        os.close(os.open(temporary, flags, 0o666 if mode is None else 0o600))
        write(temporary)
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def check_parent_folder(path: Path) -> None:
    """Raise unless the folder of `path` exists and `path` is not a folder itself."""
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(
            f"{path} cannot be written: the folder {path.absolute().parent} does not exist"
        )
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder: name a file")
