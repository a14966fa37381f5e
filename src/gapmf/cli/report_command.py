"""`gapmf report`: a fit as one HTML file."""

from __future__ import annotations

import time
from typing import Any

import typer

from gapmf.cli.check_commands import read_groups
from gapmf.cli.files import (
    check_not_input,
    echo_warnings,
    exposure_for,
    name_samples,
    read_for,
    verbosity,
)
from gapmf.cli.options import ReportRequest
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io.matrices import read_colours
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
        given = {"--groups": request.groups, "--rank": request.rank, "--exposure": request.exposure}
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
        found["exposure"] = exposure_for(request.exposure, request.data, table, request.reading)
        if request.groups is not None:
            found["groups"] = read_groups(request.groups, request.data, request.reading, table)
            if request.data.suffix.lower() == ".h5ad":
                found["group_colours"] = read_colours(str(request.data), request.groups)
    with echo_warnings():
        write_report(request.output, est, X, rank_report=request.rank, title=request.title, **found)
    size = request.output.stat().st_size / 1e6
    took = format_duration(time.perf_counter() - start)
    typer.echo(f"{request.output}: {size:.1f} MB, in {took}. Open it in a browser.")
