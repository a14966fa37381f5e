"""`gapmf check` and `gapmf compare`: whether a model fits; how groups of samples differ."""

from __future__ import annotations

import sys
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
    write_picture,
)
from gapmf.cli.options import CheckRequest, CompareRequest
from gapmf.errors import InvalidInputError
from gapmf.io import Table
from gapmf.io.matrices import read_obs
from gapmf.io.table import read_text_lines
from gapmf.output import SUFFIXES, to_json, to_records, write_table


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
