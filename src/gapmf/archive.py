"""The container of gapmf's files: an archive of arrays that is checked byte for byte.

What it looks like stands in `storage`.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import sys
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import StorageError

LARGEST_JSON = 1 << 22  # bytes; parsed, JSON may take 30 times its size, and arrays only their own
DTYPES = re.compile(r"<f8|<i8|<u8|\|b1|<U[1-9]\d{0,5}")


def damaged(what: str) -> StorageError:
    """The error for a file that does not hold what it was written with."""
    return StorageError(f"is damaged or cut short, {what}: take it from a backup, or save it again")


# Arrays: the .npy format, version 1.0.

_NPY_HEADER = re.compile(
    r"\{'descr': '?([^\n]{1,99}?)'?, 'fortran_order': (True|False), 'shape': (\([\d, ]*\)), \} *\n"
)


def npy_header(descr: str, shape: tuple[int, ...]) -> bytes:
    """What stands before the data of an array."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"  # the data begin at a multiple of 64
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def read_array(file: BinaryIO, member: Member) -> NDArray[Any]:
    """The array whose bytes come next, allocated when their number is known to be right."""
    start = file.read(min(member.size, 10))
    length = min(member.size - len(start), int.from_bytes(start[8:], "little"))
    header = start + file.read(length)
    # A pattern, not numpy.lib.format: that evaluates the header as Python, and may warn.
    parts = _NPY_HEADER.fullmatch(header[10:].decode("latin-1"))
    if parts is None:
        raise damaged(f"{member.name} has no .npy header as gapmf writes it")
    descr, fortran, digits = parts.groups()
    if fortran == "True" or DTYPES.fullmatch(descr) is None:
        order = "Fortran" if fortran == "True" else "C"
        raise damaged(f"{member.name} has dtype {descr} in {order} order, which gapmf never writes")
    dtype, shape = np.dtype(descr), tuple(int(n) for n in re.findall(r"\d{1,19}", digits))
    if header != npy_header(descr, shape):
        raise damaged(f"{member.name} has no .npy header as gapmf writes it")
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != member.size - len(header):
        n_left = member.size - len(header)
        raise damaged(f"{member.name} needs {n_bytes} bytes for its shape and has {n_left}")
    try:
        array = np.empty(shape, dtype)
    except (ValueError, OverflowError) as error:  # too many dimensions, or impossible ones
        raise damaged(f"{member.name} has a shape that cannot be ({error})") from None
    flat = array.reshape(-1)
    if file.readinto(flat.view(np.uint8)) != n_bytes:  # type: ignore[attr-defined]
        raise damaged(f"{member.name} was cut while it was read")
    if dtype.kind in "bU" and flat.size:
        # A bool is 0 or 1, and letters end where Unicode does; NumPy fails later on others.
        largest = flat.view(np.uint8).max() if dtype.kind == "b" else flat.view("<u4").max()
        if largest > (1 if dtype.kind == "b" else sys.maxunicode):
            raise damaged(f"{member.name} has values that are none of {descr}")
    return array.astype(dtype.newbyteorder("="), copy=False)


# The archive: members one after the other, then ZIP's directory, and the digest as its comment.

_FULL = 0xFFFFFFFF  # says that a number is in the ZIP64 field
_FIXED = (45, 0, 0, 0, 0x21)  # ZIP 4.5, no flags, not compressed, at 0:00 on 1980-01-01


class Member(NamedTuple):
    """A file in the archive."""

    name: str
    crc: int
    size: int
    start: int  # of its bytes, after its header


def member_name(i: int) -> str:
    """What the i-th member is called."""
    return f"{i - 1:03d}.npy" if i else "gapmf.json"


def _header(name: str, crc: int, size: int) -> bytes:
    """What stands before a member's bytes."""
    fixed = struct.pack("<4s5H3L", b"PK\3\4", *_FIXED, crc, _FULL, _FULL)
    return fixed + struct.pack("<2H", len(name), 20) + name.encode() + _zip64(size, size)


def _zip64(*numbers: int) -> bytes:
    return struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def directory(members: list[Member], digest: str) -> bytes:
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


def pack(file: BinaryIO, contents: list[list[Any]]) -> None:
    """Write an archive; each member comes as a list of byte strings."""
    digest, members, at = hashlib.sha256(), [], 0
    for i, parts in enumerate(contents):
        crc, size = 0, sum(len(part) for part in parts)
        for part in parts:
            crc = zlib.crc32(part, crc)
        header = _header(member_name(i), crc, size)
        members.append(Member(member_name(i), crc, size, at + len(header)))
        digest.update(_label(member_name(i), size))
        file.write(header)
        for part in parts:
            digest.update(part)
            file.write(part)
        at += len(header) + size
    file.write(directory(members, digest.hexdigest()))


def read_head(file: BinaryIO, file_size: int) -> bytes:
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
        raise damaged(f"gapmf.json has more than {LARGEST_JSON} bytes")
    return file.read(head.size)


def _next_member(file: BinaryIO, i: int, file_size: int) -> Member | None:
    """The member whose header comes next; None where the directory does."""
    name = member_name(i)
    header = file.read(len(_header(name, 0, 0)))
    if header[:4] != b"PK\3\4":
        return None
    crc, size = (int.from_bytes(part, "little") for part in (header[14:18], header[-8:]))
    found = header[30 : 30 + len(name)].decode("latin-1")
    if found != name:
        raise damaged(f"its member {found!r} is where {name} was expected")
    if header[6] & 1 or header[8]:
        raise StorageError(
            f"has {name} compressed or encrypted, and gapmf stores members as they are: use the "
            "file that gapmf saved, not one that was packed again"
        )
    if header != _header(name, crc, size):
        raise damaged(f"or packed again by another program: {name} has another header")
    if size > file_size - file.tell():
        raise damaged(f"{name} is to have {size} bytes, which is more than are left")
    return Member(name, crc, size, file.tell())


def scan(file: BinaryIO, file_size: int) -> list[Member]:
    """The members of an archive that is, byte for byte, what `pack` makes of them."""
    file.seek(0)
    digest, intact = hashlib.sha256(), True
    members: list[Member] = []
    while (member := _next_member(file, len(members), file_size)) is not None:
        digest.update(_label(member.name, member.size))
        crc = 0
        for at in range(0, member.size, 1 << 20):
            chunk = file.read(min(member.size - at, 1 << 20))
            digest.update(chunk)
            crc = zlib.crc32(chunk, crc)
        intact &= crc == member.crc
        members.append(member)
    end = directory(members, digest.hexdigest())
    file.seek(members[-1].start + members[-1].size)
    if not intact or file_size - file.tell() != len(end) or file.read() != end:
        raise damaged("its bytes do not give the check sums that it names")
    return members
