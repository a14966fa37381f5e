"""`gapmf check`: whether a model fits data."""

from __future__ import annotations

import sys

import typer

from gapmf.cli.files import PICTURES, echo_warnings, is_picture, load, write_picture
from gapmf.cli.options import CheckRequest
from gapmf.output import SUFFIXES, to_json, to_records, write_table


def check(request: CheckRequest) -> None:
    """Print, draw or write the predictive check of a model."""
    est, table = load(request, (*PICTURES, *SUFFIXES))
    with echo_warnings():
        found = est.predictive_check(table.counts, random_state=request.seed)
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
