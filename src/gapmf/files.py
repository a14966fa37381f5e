"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gapmf.errors import InvalidInputError


def check_folder(path: Path) -> None:
    """Refuse a path in a folder that is not there."""
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(f"{path}: there is no folder {path.absolute().parent}")
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder: name a file")


def replace_file(path: Path, write: Callable[[str], Any]) -> None:
    """Call `write` with a path beside it that becomes the file when all is there.

    A symbolic link stays one: what it names is replaced.
    """
    path = Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix
    )
    os.close(handle)
    try:
        write(temporary)
        os.chmod(temporary, 0o666 & ~_UMASK)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def same_file(a: Path, b: Path) -> bool:
    """Whether both are there and one file."""
    return a.exists() and b.exists() and a.samefile(b)


# It can only be read by setting it, which is of the whole process: once, before there are threads.
_UMASK = os.umask(0)
os.umask(_UMASK)
