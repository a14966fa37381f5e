"""Options that several commands have, and how those of `gapmf.read` are added to a command."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

_DATA_HELP = (
    "Counts, samples × features: UCI docword.NAME.txt, MatrixMarket .mtx, SciPy .npz, .csv, .tsv, "
    ".parquet, .h5ad, a .txt with one document a line, or a folder of them. Most may be gzipped."
)
_FORMATS = "uci, mtx, npz, csv, tsv, parquet, h5ad or text"

Data = Annotated[Path, typer.Argument(metavar="DATA", help=_DATA_HELP)]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="What `gapmf fit` wrote.")]
Jobs = Annotated[int, typer.Option(help="Threads; all cores by default.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same bits.", min=0)]
Json = Annotated[bool, typer.Option("--json", help="As JSON, on standard output.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="A .csv, .tsv, .json or .parquet to write."),
]
Smoothing = Annotated[
    float | None,
    typer.Option(help="How much of the background is mixed in; by default as in the fit."),
]

_READING: dict[str, Any] = {
    "vocab": Annotated[
        Path | None,
        typer.Option(help="Names of the features, a line each; for text: what to count."),
    ],
    "format": Annotated[str | None, typer.Option(help=f"{_FORMATS}, whatever the file is called.")],
    "layer": Annotated[str | None, typer.Option(help="Of an .h5ad: where the raw counts are.")],
    "transpose": Annotated[
        bool | None,
        typer.Option("--transpose/--no-transpose", help="The file is features × samples."),
    ],
    "layout": Annotated[
        str | None, typer.Option(help="Of a table: dense, or triplets (sample, feature, count).")
    ],
    "header": Annotated[
        bool | None, typer.Option("--header/--no-header", help="Of a table: row 1 has names.")
    ],
    "sample_names": Annotated[
        bool | None,
        typer.Option("--sample-names/--no-sample-names", help="Of a table: column 1 has names."),
    ],
    "delimiter": Annotated[str | None, typer.Option(help="Of a table: between cells, as ';'.")],
    "encoding": Annotated[str | None, typer.Option(help="Of text; UTF-8 by default.")],
}


_PYTHON = re.compile(r"\b(algorithm|max_iter|smoothing|tol)=('[^']*'|\"[^\"]*\"|(?=,))")


def in_cli_words(message: str) -> str:
    """Advice that is written for Python, in the words of the command line.

    >>> as_options("try algorithm='em-c', or raise max_iter or tol")
    "try --algorithm 'em-c', or raise --max-iter or --tol"
    """

    def option(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')} {found[2]}".rstrip()

    message = message.replace("raise max_iter or tol", "raise --max-iter or --tol")
    return _PYTHON.sub(option, message)


def with_read_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `gapmf.read`; it gets those that were set as `reading`."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "reading"]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _READING.items()
    ]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        reading = {name: given.pop(name) for name in _READING}
        command(**given, reading=reading)

    wrapped.__dict__["__signature__"] = signature.replace(parameters=[*own, *more])
    wrapped.__annotations__ = {p.name: p.annotation for p in [*own, *more]}
    return wrapped
