"""Print constraints that pin every runtime dependency to the oldest version that is allowed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in project["dependencies"]:
    name, oldest = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement).groups()
    print(f"{name}=={oldest if '.' in oldest else oldest + '.0'}.*")
