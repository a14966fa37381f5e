"""`gapmf report`: a fit as one HTML file."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import typer

from gapmf.cli.files import check_not_input, echo_warnings, name_samples, read_for, verbosity
from gapmf.cli.options import ReportRequest
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, find_format
from gapmf.io.table import open_text
from gapmf.output import check_output
from gapmf.plot.arrange import parse_image
from gapmf.progress import format_duration
from gapmf.report import write_report


def report(request: ReportRequest) -> None:
    """Write the report, and say where it is."""
    start = time.perf_counter()
    check_output(request.output, (".html", ".htm"))
    check_not_input(request.output, data=request.data, model=request.model)
    if request.data is None:
        given = {"--groups": request.groups, "--rank": request.rank}
        given |= {f"--{name.replace('_', '-')}": v for name, v in request.reading.items()}
        for name, value in given.items():
            if value not in (None, False):
                raise InvalidInputError(f"{name} is about data: give them by --data FILE, too")
    est = GammaPoissonMF.load(request.model).set_params(n_jobs=request.jobs, verbose=verbosity())
    parse_image(request.image, est.n_features_in_)  # fails early
    found: dict[str, Any] = {"model_name": request.model.name, "image": request.image}
    X = None
    if request.data is not None:
        table = read_for(est, request.data, request.reading)
        X = table.counts
        found |= {"sample_names": name_samples(table), "data_name": request.data.name}
        if request.groups is not None:
            found |= read_groups(request.groups, request.data, request.reading, table)
    with echo_warnings():
        write_report(request.output, est, X, rank_report=request.rank, title=request.title, **found)
    size = request.output.stat().st_size / 1e6
    took = format_duration(time.perf_counter() - start)
    typer.echo(f"{request.output}: {size:.1f} MB, in {took}. Open it in a browser.")


def read_groups(asked: str, data: Path, reading: dict[str, Any], table: Table) -> dict[str, Any]:
    """Return the groups of samples: from a column of an .h5ad, or from a file."""
    kind = reading.get("format") or find_format(str(data))
    if kind == "h5ad":
        import anndata

        from gapmf.plot.source import obs_groups

        adata = anndata.read_h5ad(data, backed="r")
        try:
            groups, colours = obs_groups(adata, asked)
            return {"groups": groups, "group_colours": colours}
        finally:
            adata.file.close()
    path = Path(asked)
    with open_text(str(path), reading.get("encoding") or "utf-8") as stream:
        lines = stream.read().splitlines()
    rows = [row for row in csv.reader(lines, delimiter=_delimiter(path, lines)) if row]
    N = table.counts.shape[0]
    if rows and all(len(row) == 1 for row in rows):
        if len(rows) == N + 1:
            rows = rows[1:]  # a header
        if len(rows) != N:
            raise InvalidInputError(
                f"{path} has {len(rows):,} lines, but there are {N:,} samples: it must have one "
                "group per line, in the order of the samples, or a sample and its group"
            )
        return {"groups": [row[0] for row in rows]}
    bad = next((i for i, row in enumerate(rows, 1) if len(row) != 2), None)
    if bad is not None or not rows:
        raise InvalidInputError(
            f"{path}, line {bad or 1}: expected a group, or a sample and its group"
        )
    of = dict(rows)
    names = name_samples(table)
    missing = [name for name in names if name not in of]
    if len(missing) == len(names):
        raise InvalidInputError(
            f"{path} names none of the samples, which are called {names[0]!r}, …: its first column "
            "must have their names"
        )
    return {"groups": [of.get(name) for name in names]}


def _delimiter(path: Path, lines: list[str]) -> str:
    return "\t" if path.suffix.lower() in (".tsv", ".tab") or "\t" in "".join(lines[:1]) else ","
