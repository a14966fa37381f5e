"""`gapmf rank` and `gapmf select`: how many components."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from gapmf.cli.files import (
    PICTURES,
    check_not_input,
    echo_warnings,
    is_picture,
    load,
    new_figure,
    read_for,
    read_like,
    verbosity,
    write_picture,
)
from gapmf.cli.fit_command import check_model_output
from gapmf.cli.options import RankRequest
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import read
from gapmf.plot import rank_selection
from gapmf.selection import select_rank
from gapmf.storage.output import SUFFIXES, check_output, to_json, to_records, write_table

# What is written of a report, one row per component, and of a selection, one row per rank.
PER_COMPONENT = ("norm", "share", "cost", "cost_error", "bound", "keep")
PER_RANK = ("score", "error")


def rank(request: RankRequest) -> None:
    """Print or write the rank report of a model."""
    check_not_input(request.output, test=request.test)
    est, table = load(request)
    test = None if request.test is None else read_for(est, request.test, request.reading).counts
    with echo_warnings():
        report = est.rank_report(table.counts, test, criterion=request.criterion)
    order = np.argsort(-report.share, kind="stable")
    columns = {"component": order, "features": [report.labels[k] for k in order]}
    columns |= {name: getattr(report, name)[order] for name in PER_COMPONENT}
    if request.output is not None:
        write_table(columns, request.output)
    if request.json:
        content = {
            "rank": report.rank,
            "criterion": report.criterion,
            "price": report.price,
            "removed": report.removed,
        }
        sys.stdout.write(to_json(content | {"components": to_records(columns)}))
    else:
        typer.echo(str(report))


@dataclass(frozen=True)
class Files:
    """The files of `gapmf select`."""

    data: Path
    test: Path | None
    output: Path | None
    model: Path | None


def select(
    files: Files,
    components: str,
    parameters: dict[str, Any],
    reading: dict[str, Any],
    filters: dict[str, Any],
    *,
    criterion: str,
    json: bool,
) -> None:
    """Compare fits with several numbers of components; print, write or draw the comparison."""
    ranks = parse_ranks(components)
    picture = is_picture(files.output)
    check_output(files.output, (*PICTURES, *SUFFIXES))
    check_not_input(files.output, data=files.data, test=files.test, model=files.model)
    if picture:
        new_figure()  # fails early without Matplotlib
    if files.model is not None:
        check_model_output(files.model, files.data)
    with echo_warnings():
        table = read(files.data, **reading, **filters)
    names, test = table.feature_names, None
    if files.test is not None:
        n_features = table.counts.shape[1]
        test = read_like(files.test, reading, names, n_features, str(files.data)).counts
    est = GammaPoissonMF(**parameters, verbose=verbosity())
    with echo_warnings():
        found = select_rank(table.counts, ranks, X_test=test, criterion=criterion, estimator=est)
    if files.model is not None:
        if names is not None:
            found.estimator.feature_names_in_ = names
        found.estimator.save(files.model)
    columns = {"rank": found.ranks} | {name: getattr(found, name) for name in PER_RANK}
    columns["chosen"] = found.ranks == found.n_components
    if files.output is not None and picture:
        figure = new_figure()
        rank_selection(found, ax=figure.subplots())
        write_picture(figure, files.output)
    elif files.output is not None:
        write_table(columns, files.output)
    if json:
        content = {
            "n_components": found.n_components,
            "criterion": found.criterion,
            "interrupted": found.interrupted,
        }
        sys.stdout.write(to_json(content | {"ranks": to_records(columns)}))
    else:
        typer.echo(str(found))
    if found.interrupted:
        sys.exit(130)


def parse_ranks(text: str) -> list[int]:
    """Return the numbers in a list such as 5,10,20.

    >>> parse_ranks("5, 10,20")
    [5, 10, 20]
    """
    try:
        ranks = [int(part) for part in text.split(",")]
    except ValueError:
        ranks = [0]
    if min(ranks) < 1:
        raise InvalidInputError(
            f"-k must be whole numbers, 1 or more, with commas between them, such as 5,10,20, but "
            f"is {text!r}"
        )
    return ranks
