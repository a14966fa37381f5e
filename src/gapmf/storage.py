"""Models and checkpoints in files: one format, versioned and checked, never a pickle.

A gapmf file is a ZIP archive that stores its members as they are, without compression: first
``gapmf.json``, then a ``.npy`` (1.0) for each array, ``000.npy``, ``001.npy`` and so on. So
``zipfile`` and ``numpy.load(path, allow_pickle=False)`` open it too.

``gapmf.json`` is a UTF-8 object with the keys ``format`` ("gapmf"), ``version`` (1), ``kind``
("model" or "checkpoint"), ``gapmf`` (the version of the package that wrote it) and ``content``,
a tree of null, booleans, numbers, strings, lists and objects. Three nodes stand for what JSON has
not: ``{"$array": "000.npy"}``, each array once and in the order of the members;
``{"$float": "nan"}``, also "inf" and "-inf"; ``{"$int": "0x…"}`` for integers of more than 2000
bits. Arrays are float64, int64, uint64, bool or text, little-endian and in C order.

The comment of the archive is the SHA-256, in hexadecimal digits, of all members in order, each as
the length of its name, its name, the length of its bytes, its bytes; lengths are 8 bytes,
little-endian. Names, sizes and CRCs fix all the rest: sizes and offsets are always in their ZIP64
fields, dates are 1980-01-01. So the same content makes the same bytes, and `read` takes only what
`write` makes, byte for byte, where the module `zipfile` would believe what an archive claims.
Every version begins with the same first member, by which an older gapmf can tell which it has met.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import stat
import sys
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapmf.archive import (
    DTYPES,
    LARGEST_JSON,
    Member,
    damaged,
    member_name,
    npy_header,
    pack,
    read_array,
    read_head,
    scan,
)
from gapmf.errors import StorageError

__all__ = ["StorageError", "Tree", "read", "write"]

# None, bool, int, float, str, arrays, lists of trees, dictionaries of trees by name
Tree: TypeAlias = Any

VERSION = 1
DEEPEST = 100  # levels of the tree, far from where Python's recursion ends
_WIDEST_DECIMAL = 2000  # bits; Python is slow at longer decimals and by default refuses them
_ELSEWHERE = {
    "model": "load it as a model, and resume a fit from its checkpoint",
    "checkpoint": "resume the fit from it, and load the model that the fit saves at its end",
}


def write(path: str | os.PathLike[str], kind: str, content: Tree) -> None:
    """Store a tree in a file, which is there whole or not at all.

    A temporary file in the same directory takes the place of `path` when it is complete and on
    the disk; if anything fails before, an earlier file stays as it was. A file that is replaced
    keeps its permissions. A symbolic link stays, and what it points to is replaced.

    Parameters
    ----------
    path : str or path
        Exactly where: no suffix is added.
    kind : {"model", "checkpoint"}
        What the file holds; `read` asks for the same.
    content : tree
        None, bool, int, float, str, plain NumPy arrays (float64, int64, uint64, bool, text),
        lists of these, dictionaries with str keys. NumPy's scalars come back as Python's.
    """
    if kind not in _ELSEWHERE:
        raise StorageError(f"kind must be 'model' or 'checkpoint', but is {kind!r}")
    arrays: list[NDArray[Any]] = []
    head = {
        "format": "gapmf",
        "version": VERSION,
        "kind": kind,
        "gapmf": sys.modules["gapmf"].__version__,
        "content": _encode(content, "content", 0, arrays),
    }
    text = json.dumps(head, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(text) > LARGEST_JSON:
        raise StorageError(
            f"content takes {len(text)} bytes without its arrays, and {LARGEST_JSON} is the most: "
            "keep long lists as arrays"
        )
    members: list[list[Any]] = [[text]]
    for array in arrays:
        header = npy_header(array.dtype.str, array.shape)
        members.append([header, array.reshape(-1).view(np.uint8)])
    _replace(os.path.realpath(path), members)


def read(path: str | os.PathLike[str], kind: str) -> Tree:
    """Read back what `write` stored.

    Nothing in the file is executed, memory stays near the file's size whatever the file claims,
    and everything is checked before anything is returned.

    Parameters
    ----------
    path : str or path
    kind : {"model", "checkpoint"}
        What the file must hold.

    Returns
    -------
    tree
        With arrays that own their memory and can be written to.

    Raises
    ------
    StorageError
        If this is not a complete gapmf file of this kind and of a version known here. A file
        that is missing or cannot be opened raises the operating system's error.
    """
    _regular_mode(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            text = read_head(file, size)
            _check_head(_parse(text, None), kind)
            decoder = _Decoder(file, scan(file, size))
            tree = _parse(text, decoder)
            decoder.check_all_read()
    except StorageError as error:
        raise StorageError(f"{os.fspath(path)} {error}") from None
    return tree["content"]


# The tree and its JSON.


def _encode(node: Any, place: str, depth: int, arrays: list[NDArray[Any]]) -> Any:
    """The node as JSON can hold it; its arrays are appended to `arrays`."""
    if depth > DEEPEST:
        raise StorageError(f"content is nested more than {DEEPEST} deep, or holds itself")
    if isinstance(node, (np.bool_, np.integer, np.floating, np.str_)):
        node = node.item()
    kind = type(node)  # exactly: what derives from a type would come back as the type itself
    if node is None or kind is bool:
        return node
    if kind is int:
        return node if node.bit_length() <= _WIDEST_DECIMAL else {"$int": hex(node)}
    if kind is float:
        return node if math.isfinite(node) else {"$float": str(node)}
    if kind is str:
        return _check_text(node, place)
    if kind is list:
        return [_encode(part, f"{place}[{i}]", depth + 1, arrays) for i, part in enumerate(node)]
    if kind is dict:
        for key in node:
            if type(key) is not str or _check_text(key, place).startswith("$"):
                raise StorageError(f"{place} has the key {key!r}: use str that do not begin with $")
        return {k: _encode(part, f"{place}.{k}", depth + 1, arrays) for k, part in node.items()}
    if kind is np.ndarray:
        arrays.append(_storable(node, place))
        return {"$array": member_name(len(arrays))}
    raise StorageError(
        f"{place} is of type {kind.__module__}.{kind.__qualname__}, which a gapmf file cannot "
        "hold: use None, bool, int, float, str, list, dict or a plain NumPy array"
    )


def _check_text(text: str, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StorageError(
            f"{place} has {text[:40]!r}, which is not Unicode: it holds half a surrogate pair"
        ) from None
    return text


def _storable(array: NDArray[Any], place: str) -> NDArray[Any]:
    """The array little-endian and in C order."""
    dtype = array.dtype.newbyteorder("<")
    if DTYPES.fullmatch(dtype.str) is None:
        raise StorageError(
            f"{place} is an array of dtype {array.dtype}, which a gapmf file cannot hold: "
            "convert it to float64, int64, uint64, bool or str"
        )
    return np.asarray(array, dtype=dtype, order="C")


def _parse(text: bytes, decoder: _Decoder | None) -> dict[str, Any]:
    """The JSON object: as it is, or with a decoder for the nodes that are not JSON's."""
    try:
        tree = json.loads(
            text.decode(),
            object_pairs_hook=None if decoder is None else decoder.node,
            parse_int=_parse_int,
            parse_constant=_refuse_constant,
        )
    except StorageError:
        raise
    except RecursionError:
        raise damaged("gapmf.json is nested too deep") from None
    except ValueError as error:
        raise damaged(f"gapmf.json is not JSON ({error})") from None
    if not isinstance(tree, dict):
        raise damaged("gapmf.json is not a JSON object")
    return tree


def _parse_int(digits: str) -> int:
    if len(digits) > _WIDEST_DECIMAL // 3:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _check_head(head: dict[str, Any], kind: str) -> None:
    """Whether the file is of gapmf, of this version and of this kind."""
    version, maker, found = head.get("version"), head.get("gapmf"), head.get("kind")
    if head.get("format") != "gapmf" or type(version) is not int or type(maker) is not str:
        raise StorageError("is not a gapmf file: its gapmf.json does not say that it is one")
    if version > VERSION:
        maker = ascii(maker[:40]).strip("'")
        raise StorageError(
            f"was made by gapmf {maker}, format {version}; this is format {VERSION}: upgrade gapmf"
        )
    known = version == VERSION and type(found) is str and found in _ELSEWHERE
    if not known or set(head) != {"format", "version", "kind", "gapmf", "content"}:
        raise damaged(f"gapmf.json is not one of format {VERSION}")
    if found != kind:
        raise StorageError(f"holds a {found}, not a {kind}: {_ELSEWHERE[str(found)]}")


class _Decoder:
    """Turns objects of the JSON into nodes of the tree, and reads arrays as they are met."""

    def __init__(self, file: BinaryIO, members: list[Member]) -> None:
        self.file, self.members, self.n_read = file, members, 0

    def node(self, pairs: list[tuple[str, Any]]) -> Tree:
        node = dict(pairs)
        if len(node) < len(pairs):
            raise damaged("gapmf.json has a key twice")
        if not any(key.startswith("$") for key in node):
            return node
        match pairs:
            case [("$array", str(name))]:
                return self._array(name)
            case [("$float", "nan" | "inf" | "-inf" as word)]:
                return float(word)
            case [("$int", str(digits))] if re.fullmatch("-?0x[0-9a-f]+", digits):
                return int(digits, 16)
        raise damaged(f"gapmf.json has an unknown node, with the key {min(node)[:40]!r}")

    def _array(self, name: str) -> NDArray[Any]:
        self.n_read += 1
        if name != member_name(self.n_read) or self.n_read >= len(self.members):
            raise damaged(f"gapmf.json names {name[:40]!r}, which is missing or out of order")
        member = self.members[self.n_read]
        self.file.seek(member.start)
        return read_array(self.file, member)

    def check_all_read(self) -> None:
        n_arrays = len(self.members) - 1
        if n_arrays > self.n_read:
            raise damaged(f"it has {n_arrays} arrays, but gapmf.json names {self.n_read}")


# The file system.


def _regular_mode(path: str | os.PathLike[str]) -> int:
    """The permissions of a file, if it is one: to open a pipe may take for ever."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise StorageError(f"{os.fspath(path)} is a device, a pipe or a socket: give a file")
    return mode & 0o777


def _replace(target: str, contents: list[list[Any]]) -> None:
    """Write an archive next to `target`, bring it to the disk, and put it in target's place."""
    folder, mode = os.path.dirname(target), None
    os.stat(folder)  # if it is missing, the error names it rather than the temporary file
    with contextlib.suppress(FileNotFoundError):
        mode = _regular_mode(target)
        if not os.access(target, os.W_OK):  # protected: open(target, "wb") would say the same
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    temporary = os.path.join(folder, f".gapmf-{secrets.token_hex(16)}.tmp")

    def create(name: str, flags: int) -> int:
        # A new file gets what the umask leaves. An old one may have been private.
        return os.open(name, flags, 0o666 if mode is None else 0o600)

    try:
        with open(temporary, "xb", opener=create) as file:
            pack(file, contents)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):  # a directory cannot be synchronised everywhere
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
