"""How long it takes until there is an answer, in new processes.

    python benchmarks/start_up.py [--repeats 7] [--json FILE]

In turns, the median of repeats: `import gapmf; gapmf.GammaPoissonMF` beside `import
sklearn.decomposition`; a first small fit, with kernels that are compiled already and, once, with
an empty cache (docs/design/0009-cold-start.md has the time of each kernel); `gapmf --help`
beside an application of typer with one empty command.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIT = """
import numpy, gapmf
X = numpy.random.default_rng(0).poisson(2.0, (50, 20))
gapmf.GammaPoissonMF(3, random_state=0, max_iter=50, tol=0.1).fit(X)
"""
EMPTY_APP = """
import typer
app = typer.Typer(add_completion=False)
@app.callback()
def main(): "An application."
@app.command()
def nothing(): "Does nothing."
app()
"""


def seconds(command, env=None):
    start = time.perf_counter()
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json")
    args = parser.parse_args()
    python = [sys.executable, "-W", "ignore", "-c"]
    gapmf = str(Path(sys.executable).with_name("gapmf"))
    commands = {
        "import sklearn.decomposition": [*python, "import sklearn.decomposition"],
        "import gapmf; gapmf.GammaPoissonMF": [*python, "import gapmf; gapmf.GammaPoissonMF"],
        "a first small fit, kernels cached": [*python, FIT],
        "typer, one empty command, --help": [*python, EMPTY_APP, "--help"],
        "gapmf --help": [gapmf, "--help"],
    }
    taken = {name: [] for name in commands}
    seconds(commands["a first small fit, kernels cached"])
    for _ in range(args.repeats):
        for name, command in commands.items():
            taken[name].append(seconds(command))
    median = {name: statistics.median(times) for name, times in taken.items()}
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"NUMBA_CACHE_DIR": folder}
        name = "a first small fit, nothing compiled"
        median[name] = seconds([*python, FIT], env)
    for name, value in median.items():
        print(f"{value:7.2f} s  {name}")
    base, estimator, cached, empty, shown, fresh = median.values()
    ratios = {
        "the estimator / sklearn.decomposition (at most 1.5)": estimator / base,
        "a first fit, s more than the import (at most 3)": cached - estimator,
        "the same, s more when nothing is compiled (at most 12)": fresh - cached,
        "gapmf --help / an empty application (at most 1.5)": shown / empty,
    }
    for name, value in ratios.items():
        print(f"{value:7.2f}    {name}")
    if args.json:
        Path(args.json).write_text(json.dumps({"seconds": median, "ratios": ratios}, indent=1))


if __name__ == "__main__":
    main()
