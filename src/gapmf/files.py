"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from gapmf.errors import InvalidInputError


def check_folder(path: Path) -> None:
    """Refuse a path in a folder that is not there."""
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(f"{path}: there is no folder {path.absolute().parent}")
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder: name a file")


def replace_file(path: Path, write: Any) -> None:
    """Call `write` with a path beside it that becomes the file when all is there."""
    handle, temporary = tempfile.mkstemp(
        dir=path.absolute().parent, prefix=f".{path.name}.", suffix=path.suffix
    )
    os.close(handle)
    try:
        write(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
