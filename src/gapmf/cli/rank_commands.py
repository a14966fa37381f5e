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
from gapmf.output import SUFFIXES, check_output, to_json, to_records, write_table
from gapmf.selection import RankSelection, select_rank

INK, QUIET, COLOUR, CHOSEN = "#22262b", "#7b838c", "#3b6fb6", "#c8553d"
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
        write_picture(draw(found), files.output)
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


def draw(found: RankSelection) -> Any:
    """Draw the criterion that decided against the rank, as differences from its best value."""
    name = "BIC" if found.criterion == "BIC" else f"log-likelihood of {found.criterion}"
    ranks, errors, below = found.ranks, found.error, found.score - found.score.max()
    figure = new_figure()
    ax = figure.subplots()
    ax.axhline(0.0, color=QUIET, lw=0.8, ls=(0, (4, 3)))
    ax.errorbar(
        ranks, below, yerr=errors, fmt="o-", ms=6, color=COLOUR, ecolor=INK, capsize=4, lw=1.3
    )
    for i, rank in enumerate(ranks):
        error = f" ± {errors[i]:,.0f}" if errors[i] else ""
        text = f"{below[i]:,.0f}{error}".replace("-", "−") if below[i] else "best"
        # Below the best ones; else to the right, on the side that the line leaves free.
        falls = i + 1 == len(ranks) or below[i + 1] < below[i]
        near = below[i] >= 0.1 * below.min()
        _write(ax, text, (rank, below[i]), (0, -13) if near else (7, 3 if falls else -12), QUIET)
        if rank == found.n_components:
            ax.plot(rank, below[i], "o", ms=14, mfc="none", mec=CHOSEN, mew=2)
            _write(ax, f"chosen: {rank}", (rank, below[i]), (0, 13), CHOSEN)
    if ranks[-1] >= 8 * ranks[0]:
        ax.set_xscale("log")
    ax.set_xticks(ranks, [str(rank) for rank in ranks])
    ax.set_xticks([], minor=True)
    ax.margins(0.15, 0.2)
    ax.set_xlabel("number of components", color=INK)
    ax.set_ylabel(f"{name}:\ndifference from the best ± standard error (nats)", color=INK)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}".replace("-", "−"))
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _write(ax: Any, text: str, point: Any, place: tuple[int, int], colour: str) -> None:
    """Write beside a point, at so many typographic points from it."""
    ax.annotate(
        text,
        point,
        place,
        textcoords="offset points",
        ha="left" if place[0] else "center",
        va="bottom" if place[1] > 0 else "top",
        color=colour,
        fontsize=9,
    )
