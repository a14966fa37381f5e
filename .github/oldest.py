"""Print constraints that pin dependencies to the oldest versions that are allowed.

python .github/oldest.py [EXTRA …]: those that everybody needs, and those of some extras.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

file = Path(__file__).parent.parent / "pyproject.toml"
project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
needed = [*project["dependencies"], *(need for extra in sys.argv[1:] for need in extras[extra])]
for requirement in dict.fromkeys(needed):
    name, oldest = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", requirement).groups()
    print(f"{name}=={oldest if '.' in oldest else oldest + '.0'}.*")
