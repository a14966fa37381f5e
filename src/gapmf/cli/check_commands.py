"""`gapmf check`, `compare`, `report`: whether a model fits; how groups differ; all on one page."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import typer

from gapmf.cli.files import (
    PICTURES,
    check_not_input,
    echo_warnings,
    exposure_for,
    is_picture,
    load,
    name_samples,
    read_for,
    verbosity,
    write_picture,
)
from gapmf.cli.options import CheckRequest, CompareRequest, ReportRequest
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table
from gapmf.io.matrices import read_colours, read_obs
from gapmf.io.table import read_text_lines
from gapmf.plot.arrange import parse_image
from gapmf.progress import format_duration
from gapmf.report import write_report
from gapmf.storage.output import SUFFIXES, check_output, to_json, to_records, write_table


def check(request: CheckRequest) -> None:
    """Print, draw or write the predictive check of a model."""
    est, table = load(request, (*PICTURES, *SUFFIXES))
    exposure = exposure_for(request.exposure, request.data, table, request.reading)
    with echo_warnings():
        found = est.predictive_check(table.counts, exposure=exposure, random_state=request.seed)
    low, middle, high = found.bands()
    columns = {
        "statistic": list(found.statistics),
        "observed": found.observed,
        "model": middle,
        "model_05": low,
        "model_95": high,
        "p_value": found.p_values,
    }
    if request.output is not None and is_picture(request.output):
        write_picture(found.plot()[0].figure, request.output)
    elif request.output is not None:
        write_table(columns, request.output)
    if request.json:
        content = {
            "samples": found.n_samples,
            "samples_checked": found.n_checked,
            "samples_checked_by_entries": found.n_entries_checked,
            "advice": found.advice,
        }
        sys.stdout.write(to_json(content | {"statistics": to_records(columns)}))
    else:
        typer.echo(str(found))


def compare(request: CompareRequest) -> None:
    """Print, draw or write the comparison of groups."""
    file = Path(request.groups)
    check_not_input(request.output, groups=file)
    est, table = load(request, (*PICTURES, *SUFFIXES))
    groups = read_groups(request.groups, request.data, request.reading, table)
    exposure = exposure_for(request.exposure, request.data, table, request.reading)
    with echo_warnings():
        found = est.compare(table.counts, groups, level=request.level, exposure=exposure)
    order = found.order()
    G, K = found.share.shape
    k, g = np.repeat(order, G), np.tile(np.arange(G), K)
    columns = {
        "component": k,
        "features": [found.labels[i] for i in k],
        "group": [found.groups[i] for i in g],
        "samples": found.n_samples[g],
        "share": found.share[g, k],
        "share_low": found.interval[g, k, 0],
        "share_high": found.interval[g, k, 1],
        "difference": found.difference[g, k],
        "difference_low": found.difference_interval[g, k, 0],
        "difference_high": found.difference_interval[g, k, 1],
        "p_value": found.p_values[g, k],
        "differs": found.differs[g, k],
    }
    if request.output is not None and is_picture(request.output):
        write_picture(found.plot().figure, request.output)
    elif request.output is not None:
        write_table(columns, request.output)
    if request.json:
        content = {"level": found.level, "samples_without_counts": found.n_without_counts}
        sys.stdout.write(to_json(content | {"comparisons": to_records(columns)}))
    else:
        typer.echo(str(found))


def read_groups(asked: str, data: Path, reading: dict[str, Any], table: Table) -> Any:
    """Return the group of each sample, from a file or from a column of an .h5ad."""
    path, encoding = Path(asked), reading.get("encoding") or "utf-8"
    if not path.is_file():
        if data.suffix.lower() == ".h5ad":
            return read_obs(str(data), asked)
        raise InvalidInputError(
            f"--groups {asked}: there is no such file, and only an .h5ad has columns of samples"
        )
    if path.suffix.lower() not in (".csv", ".tsv"):
        return read_text_lines(str(path), encoding)
    import pandas as pd

    frame = pd.read_csv(
        path, sep="\t" if path.suffix.lower() == ".tsv" else ",", dtype=str, encoding=encoding
    )
    if frame.shape[1] != 2:
        raise InvalidInputError(
            f"{path} has {frame.shape[1]} columns, but needs two, with a header: the names of "
            "samples, and their groups"
        )
    if table.sample_names is None:
        raise InvalidInputError(
            f"{data} has no names of samples that {path} could be matched by: give a text "
            "file with one group per line"
        )
    names, groups = frame.iloc[:, 0], frame.iloc[:, 1]
    if names.duplicated().any():
        raise InvalidInputError(
            f"{path} has the sample {names[names.duplicated()].iloc[0]!r} twice"
        )
    found = groups.set_axis(names).reindex(table.sample_names)
    if found.isna().any():
        raise InvalidInputError(
            f"{path} has no group for the sample {found.index[found.isna()][0]!r} of {data}"
        )
    return found.to_numpy()


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
