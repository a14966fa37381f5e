"""Check what the distributions in a folder hold: python .github/check_dist.py dist"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

NEEDED = {"gapmf/__init__.py", "gapmf/py.typed", "gapmf/report/page.css", "gapmf/report/page.js"}
SOURCE_ONLY = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "CITATION.cff"}
SUFFIXES = {".py", ".typed", ".css", ".js"}


def wrong_names(names: list[str], *, wheel: bool) -> list[str]:
    """Return what is missing, and what should not be there."""
    if not wheel:
        names = [name.partition("/")[2] for name in names]
    root = "gapmf/" if wheel else "src/gapmf/"
    code = {name.removeprefix(root) for name in names if name.startswith(root)}
    missing = {name.removeprefix("gapmf/") for name in NEEDED} - code
    wrong = [f"{name} is missing" for name in sorted(missing)]
    wrong += [f"{n} does not belong here" for n in code if PurePosixPath(n).suffix not in SUFFIXES]
    others = [name for name in names if name and not name.startswith(root)]
    if wheel:
        return wrong + [f"{n} does not belong here" for n in others if ".dist-info/" not in n]
    allowed = {*SOURCE_ONLY, ".gitignore"}
    wrong += [f"{name} is missing" for name in sorted(SOURCE_ONLY - {*others})]
    return wrong + [f"{name} does not belong here" for name in others if name not in allowed]


def main(folder: Path) -> int:
    """Check one wheel and one source distribution."""
    found = {
        path: wrong_names(zipfile.ZipFile(path).namelist(), wheel=True)
        for path in folder.glob("*.whl")
    }
    for path in folder.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            found[path] = wrong_names([m.name for m in archive if m.isfile()], wheel=False)
    for path, wrong in found.items():
        print(f"{path.name}: {'; '.join(wrong) or 'holds what it should'}")
    if len(found) != 2:
        print(f"expected a wheel and a source distribution in {folder}, found {len(found)} files")
    return int(len(found) != 2 or any(found.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
