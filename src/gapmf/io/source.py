"""A file as a stream of lines: gzip or not, in pieces, with the number of every line.

What a file claims is never believed: it is read piece by piece, a line has a largest length,
and what unpacks to far more than it takes on the disk is refused before it fills the memory.
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from typing import NoReturn

from gapmf.errors import InvalidInputError, ReadError
from gapmf.validation import shorten

BLOCK = 1 << 20  # bytes read at a time
LONGEST_LINE = 1 << 25  # bytes: a header of some million names
EXPANSION = 500  # times its size that a file may unpack to; deflate reaches 1030 at its most
MOST_BLANK = 1 << 21  # bytes of blank lines, one after the other
FREE = 1 << 26  # bytes that any file may unpack to, however small it is
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")


def check_regular(path: str) -> int:
    """The size of a file, if it is one: to open a pipe may take for ever."""
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise ReadError(f"{path} is a folder, and a file was expected: name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise ReadError(f"{path} is a device, a pipe or a socket: give a file")
    return found.st_size


def check_expansion(path: str, claimed: int, size: int) -> None:
    """Refuse a file that unpacks, or says that it does, to far more than its `size`."""
    if claimed > FREE + EXPANSION * size:
        raise ReadError(
            f"{path} has {size} bytes and unpacks to more than {EXPANSION} times as many, at least "
            f"{claimed}: it is damaged or made to fill the memory; if it is right, save it "
            "without compression"
        )


def check_encoding(encoding: str | None) -> str:
    """The encoding to use: UTF-8, or one in which a line end is the byte that it is in ASCII."""
    if encoding is None:
        return "utf-8"
    try:
        plain = codecs.lookup(encoding).name if isinstance(encoding, str) else ""
        usable = b"a,\t\n".decode(plain) == "a,\t\n"
    except (LookupError, ValueError):
        usable = False
    if not usable:
        raise InvalidInputError(
            f"encoding={encoding!r} cannot be used: give the name of one that extends ASCII, such "
            "as 'utf-8', 'latin-1' or 'cp1252', and save files in others (UTF-16) as UTF-8"
        )
    return plain


class Source:
    """An open file, read in pieces; a context manager.

    `line` is the number of lines that were handed out, so that of the last one.
    """

    def __init__(self, path: str) -> None:
        self.path, self.line, self.size = path, 0, check_regular(path)
        self._buffer, self._at, self._n_read = b"", 0, 0
        self._raw = open(path, "rb")  # noqa: SIM115
        self._gz: gzip.GzipFile | None = None
        if self._raw.peek(2)[:2] == b"\x1f\x8b":
            self._gz = gzip.GzipFile(fileobj=self._raw)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self._raw.close()

    def fail(self, line: int, what: str) -> NoReturn:
        """Raise the error for what is wrong in a line."""
        raise ReadError(f"{self.path}, line {line}: {what}")

    def read(self, n_bytes: int) -> bytes:
        """The next bytes, fewer at the end of the file."""
        if self._gz is None:
            data = self._raw.read(n_bytes)
        else:
            try:
                data = self._gz.read(n_bytes)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ReadError(
                    f"{self.path} is a gzip file that is damaged or cut short, after line "
                    f"{self.line} ({error}): download or copy it again"
                ) from None
            check_expansion(self.path, self._n_read + len(data), self.size)
        if self._n_read == 0:
            if data.startswith(_WIDE_BOMS):
                raise ReadError(f"{self.path} is UTF-16, by its first bytes: save it as UTF-8")
            self._n_read, data = len(data), data.removeprefix(_BOM)
        else:
            self._n_read += len(data)
        return data

    def next_line(self) -> bytes | None:
        """The next line without its end; None after the last one."""
        while (cut := self._buffer.find(b"\n", self._at)) < 0:
            more = self.read(BLOCK)
            if not more:
                break
            self._check_length(len(self._buffer) - self._at)
            self._buffer, self._at = self._buffer[self._at :] + more, 0
        if cut < 0:
            cut = len(self._buffer)
            if self._at >= cut:
                return None
        line, self._at = self._buffer[self._at : cut], cut + 1
        self.line += 1
        return line.removesuffix(b"\r")

    def blocks(self) -> Iterator[bytes]:
        """What is left, in pieces of whole lines.

        While a piece is looked at, `line` is still that before its first line.
        """
        pieces: list[bytes] = []
        length = n_blank = 0  # of the line that has begun, and of blank lines
        more = self._buffer[self._at :] or self.read(BLOCK)
        self._buffer, self._at = b"", 0
        while more:
            cut = more.rfind(b"\n") + 1
            if cut:
                block = b"".join([*pieces, more[:cut]])
                pieces, length = [more[cut:]], len(more) - cut
                n_blank = n_blank + len(block) if block.isspace() else 0
                if n_blank > MOST_BLANK:
                    self.fail(self.line + 1, f"more than {MOST_BLANK} bytes are blank lines")
                yield block
                self.line += block.count(b"\n")
            else:
                pieces.append(more)
                length += len(more)
                self._check_length(length)
            more = self.read(BLOCK)
        if length:
            yield b"".join(pieces)
            self.line += 1

    def _check_length(self, length: int) -> None:
        """Refuse a line without end."""
        if length > LONGEST_LINE:
            self.fail(
                self.line + 1,
                f"is longer than {LONGEST_LINE} bytes: is this a file of text, with line ends?",
            )

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """What is left, line by line: its number, and it without its end."""
        for block in self.blocks():
            parts = block.split(b"\n")
            if not parts[-1]:
                parts.pop()
            for number, part in enumerate(parts, self.line + 1):
                yield number, part.removesuffix(b"\r")

    def texts(self, encoding: str) -> Iterator[tuple[int, str]]:
        """What is left, line by line, decoded."""
        for number, line in self.lines():
            yield number, self.decode(number, line, encoding)

    def decode(self, number: int, line: bytes, encoding: str) -> str:
        """A line as text."""
        try:
            return line.decode(encoding)
        except UnicodeDecodeError as error:
            self.fail(
                number,
                f"byte {error.start + 1} of the line, {line[error.start : error.start + 1]!r}, is "
                f"not {encoding}: if the file is in another encoding, name it (encoding='latin-1')",
            )
        except UnicodeError as error:  # of codecs that do not say where
            self.fail(number, f"{shorten(line)} is not {encoding} ({error})")
