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
import hashlib
import json
import math
import os
import re
import secrets
import stat
import struct
import sys
import zlib
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import StorageError

__all__ = ["StorageError", "Tree", "read", "write"]

# None, bool, int, float, str, arrays, lists of trees, dictionaries of trees by name
Tree: TypeAlias = Any

VERSION = 1
LARGEST_JSON = 1 << 22  # bytes; parsed, JSON may take 30 times its size, and arrays only their own
DEEPEST = 100  # levels of the tree, far from where Python's recursion ends
_WIDEST_DECIMAL = 2000  # bits; Python is slow at longer decimals and by default refuses them
_ELSEWHERE = {
    "model": "load it as a model, and resume a fit from its checkpoint",
    "checkpoint": "resume the fit from it, and load the model that the fit saves at its end",
}
_DTYPES = re.compile(r"<f8|<i8|<u8|\|b1|<U[1-9]\d{0,5}")


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
        header = _npy_header(array.dtype.str, array.shape)
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
            text = _read_head(file, size)
            _check_head(_parse(text, None), kind)
            decoder = _Decoder(file, _scan(file, size))
            tree = _parse(text, decoder)
            decoder.check_all_read()
    except StorageError as error:
        raise StorageError(f"{os.fspath(path)} {error}") from None
    return tree["content"]


def _damaged(what: str) -> StorageError:
    return StorageError(f"is damaged or cut short, {what}: take it from a backup, or save it again")


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
        return {"$array": _name(len(arrays))}
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
    if _DTYPES.fullmatch(dtype.str) is None:
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
        raise _damaged("gapmf.json is nested too deep") from None
    except ValueError as error:
        raise _damaged(f"gapmf.json is not JSON ({error})") from None
    if not isinstance(tree, dict):
        raise _damaged("gapmf.json is not a JSON object")
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
        raise _damaged(f"gapmf.json is not one of format {VERSION}")
    if found != kind:
        raise StorageError(f"holds a {found}, not a {kind}: {_ELSEWHERE[str(found)]}")


class _Decoder:
    """Turns objects of the JSON into nodes of the tree, and reads arrays as they are met."""

    def __init__(self, file: BinaryIO, members: list[_Member]) -> None:
        self.file, self.members, self.n_read = file, members, 0

    def node(self, pairs: list[tuple[str, Any]]) -> Tree:
        node = dict(pairs)
        if len(node) < len(pairs):
            raise _damaged("gapmf.json has a key twice")
        if not any(key.startswith("$") for key in node):
            return node
        match pairs:
            case [("$array", str(name))]:
                return self._array(name)
            case [("$float", "nan" | "inf" | "-inf" as word)]:
                return float(word)
            case [("$int", str(digits))] if re.fullmatch("-?0x[0-9a-f]+", digits):
                return int(digits, 16)
        raise _damaged(f"gapmf.json has an unknown node, with the key {min(node)[:40]!r}")

    def _array(self, name: str) -> NDArray[Any]:
        self.n_read += 1
        if name != _name(self.n_read) or self.n_read >= len(self.members):
            raise _damaged(f"gapmf.json names {name[:40]!r}, which is missing or out of order")
        member = self.members[self.n_read]
        self.file.seek(member.start)
        return _read_array(self.file, member)

    def check_all_read(self) -> None:
        n_arrays = len(self.members) - 1
        if n_arrays > self.n_read:
            raise _damaged(f"it has {n_arrays} arrays, but gapmf.json names {self.n_read}")


# Arrays: the .npy format, version 1.0.

_NPY_HEADER = re.compile(
    r"\{'descr': '?([^\n]{1,99}?)'?, 'fortran_order': (True|False), 'shape': (\([\d, ]*\)), \} *\n"
)


def _npy_header(descr: str, shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"  # the data begin at a multiple of 64
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def _read_array(file: BinaryIO, member: _Member) -> NDArray[Any]:
    """The array whose bytes come next, allocated when their number is known to be right."""
    start = file.read(min(member.size, 10))
    length = min(member.size - len(start), int.from_bytes(start[8:], "little"))
    header = start + file.read(length)
    # A pattern, not numpy.lib.format: that evaluates the header as Python, and may warn.
    parts = _NPY_HEADER.fullmatch(header[10:].decode("latin-1"))
    if parts is None:
        raise _damaged(f"{member.name} has no .npy header as gapmf writes it")
    descr, fortran, digits = parts.groups()
    if fortran == "True" or _DTYPES.fullmatch(descr) is None:
        order = "Fortran" if fortran == "True" else "C"
        raise _damaged(
            f"{member.name} has dtype {descr} in {order} order, which gapmf never writes"
        )
    dtype, shape = np.dtype(descr), tuple(int(n) for n in re.findall(r"\d{1,19}", digits))
    if header != _npy_header(descr, shape):
        raise _damaged(f"{member.name} has no .npy header as gapmf writes it")
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != member.size - len(header):
        n_left = member.size - len(header)
        raise _damaged(f"{member.name} needs {n_bytes} bytes for its shape and has {n_left}")
    try:
        array = np.empty(shape, dtype)
    except (ValueError, OverflowError) as error:  # too many dimensions, or impossible ones
        raise _damaged(f"{member.name} has a shape that cannot be ({error})") from None
    flat = array.reshape(-1)
    if file.readinto(flat.view(np.uint8)) != n_bytes:  # type: ignore[attr-defined]
        raise _damaged(f"{member.name} was cut while it was read")
    if dtype.kind in "bU" and flat.size:
        # A bool is 0 or 1, and letters end where Unicode does; NumPy fails later on others.
        largest = flat.view(np.uint8).max() if dtype.kind == "b" else flat.view("<u4").max()
        if largest > (1 if dtype.kind == "b" else sys.maxunicode):
            raise _damaged(f"{member.name} has values that are none of {descr}")
    return array.astype(dtype.newbyteorder("="), copy=False)


# The archive: members one after the other, then ZIP's directory, and the digest as its comment.

_FULL = 0xFFFFFFFF  # says that a number is in the ZIP64 field
_FIXED = (45, 0, 0, 0, 0x21)  # ZIP 4.5, no flags, not compressed, at 0:00 on 1980-01-01


class _Member(NamedTuple):
    name: str
    crc: int
    size: int
    start: int  # of its bytes, after its header


def _name(i: int) -> str:
    return f"{i - 1:03d}.npy" if i else "gapmf.json"


def _header(name: str, crc: int, size: int) -> bytes:
    """What stands before a member's bytes."""
    fixed = struct.pack("<4s5H3L", b"PK\3\4", *_FIXED, crc, _FULL, _FULL)
    return fixed + struct.pack("<2H", len(name), 20) + name.encode() + _zip64(size, size)


def _zip64(*numbers: int) -> bytes:
    return struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def _directory(members: list[_Member], digest: str) -> bytes:
    """The end of an archive, which follows from its members."""
    entries = []
    for name, crc, size, start in members:
        fixed = struct.pack("<4s6H3L", b"PK\1\2", 3 << 8 | 45, *_FIXED, crc, _FULL, _FULL)
        fixed += struct.pack("<5H2L", len(name), 28, 0, 0, 0, 0o100644 << 16, _FULL)
        at = start - len(_header(name, crc, size))
        entries.append(fixed + name.encode() + _zip64(size, size, at))
    listing, n = b"".join(entries), len(members)
    at = members[-1].start + members[-1].size
    zip64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, n, n, len(listing), at)
    zip64 += struct.pack("<4sLQL", b"PK\6\7", 0, at + len(listing), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, _FULL, _FULL, len(digest))
    return listing + zip64 + end + digest.encode()


def _label(name: str, size: int) -> bytes:
    """What the digest takes in before a member's bytes, so that no two archives agree."""
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<Q", size)


def _pack(file: BinaryIO, contents: list[list[Any]]) -> None:
    """Write an archive; each member comes as a list of byte strings."""
    digest, members, at = hashlib.sha256(), [], 0
    for i, parts in enumerate(contents):
        crc, size = 0, sum(len(part) for part in parts)
        for part in parts:
            crc = zlib.crc32(part, crc)
        header = _header(_name(i), crc, size)
        members.append(_Member(_name(i), crc, size, at + len(header)))
        digest.update(_label(_name(i), size))
        file.write(header)
        for part in parts:
            digest.update(part)
            file.write(part)
        at += len(header) + size
    file.write(_directory(members, digest.hexdigest()))


def _read_head(file: BinaryIO, file_size: int) -> bytes:
    """The bytes of gapmf.json, if the file begins as a gapmf file does."""
    start = file.read(40)
    if start[:4] != b"PK\3\4" or start[30:] != b"gapmf.json":
        what = f"it begins with {start[:12]!r}"
        if not start:
            what = "it is empty"
        elif start[:2] == b"PK":
            what = "it is a ZIP archive (.npz?) that does not begin with gapmf.json"
        elif start[:1] == b"\x80":
            what = "it looks like a pickle, and gapmf never reads one"
        raise StorageError(f"is not a gapmf file, {what}: give a file that gapmf has saved")
    file.seek(0)
    head = _next_member(file, 0, file_size)
    if head is None or head.size > LARGEST_JSON:
        raise _damaged(f"gapmf.json has more than {LARGEST_JSON} bytes")
    return file.read(head.size)


def _next_member(file: BinaryIO, i: int, file_size: int) -> _Member | None:
    """The member whose header comes next; None where the directory does."""
    name = _name(i)
    header = file.read(len(_header(name, 0, 0)))
    if header[:4] != b"PK\3\4":
        return None
    crc, size = (int.from_bytes(part, "little") for part in (header[14:18], header[-8:]))
    found = header[30 : 30 + len(name)].decode("latin-1")
    if found != name:
        raise _damaged(f"its member {found!r} is where {name} was expected")
    if header[6] & 1 or header[8]:
        raise StorageError(
            f"has {name} compressed or encrypted, and gapmf stores members as they are: use the "
            "file that gapmf saved, not one that was packed again"
        )
    if header != _header(name, crc, size):
        raise _damaged(f"or packed again by another program: {name} has another header")
    if size > file_size - file.tell():
        raise _damaged(f"{name} is to have {size} bytes, which is more than are left")
    return _Member(name, crc, size, file.tell())


def _scan(file: BinaryIO, file_size: int) -> list[_Member]:
    """The members of an archive that is, byte for byte, what `_pack` makes of them."""
    file.seek(0)
    digest, intact = hashlib.sha256(), True
    members: list[_Member] = []
    while (member := _next_member(file, len(members), file_size)) is not None:
        digest.update(_label(member.name, member.size))
        crc = 0
        for at in range(0, member.size, 1 << 20):
            chunk = file.read(min(member.size - at, 1 << 20))
            digest.update(chunk)
            crc = zlib.crc32(chunk, crc)
        intact &= crc == member.crc
        members.append(member)
    end = _directory(members, digest.hexdigest())
    file.seek(members[-1].start + members[-1].size)
    if not intact or file_size - file.tell() != len(end) or file.read() != end:
        raise _damaged("its bytes do not give the check sums that it names")
    return members


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
            _pack(file, contents)
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
