"""`gapmf topics` shows the components of a model; `gapmf info` describes a file.

Both read the file without the estimator, so that they start as fast as `gapmf --help`.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

import gapmf.storage as storage
from gapmf.errors import StorageError
from gapmf.persistence import Fitted, conversion, read_model
from gapmf.ranks.features import top_features, visible_features
from gapmf.storage.output import check_output, to_json, write_table

if TYPE_CHECKING:
    from gapmf.estimator import GammaPoissonMF

MAX_ROWS = 40  # with more components, those below `prune_tol` are not listed


@dataclass(frozen=True)
class Words:
    """Words in lines as long as the column is wide. A line ends between words, not within one."""

    words: list[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        line = Text()
        for word in self.words:
            if line and line.cell_len + 2 + word.cell_len > options.max_width:
                yield line
                line = Text()
            line = Text.assemble(line, "  " if line else "", word)
        yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widths = [word.cell_len + 2 for word in self.words] or [2]
        return Measurement(max(widths) - 2, sum(widths) - 2)


def run_topics(path: Path, n: int, by: str, output: Path | None, *, json: bool) -> None:
    """Show the components, or write them."""
    check_output(output)
    parameters, fitted = read_model(path)
    with conversion(path):
        prune_tol = float(parameters["prune_tol"])
    if not json and output is None:
        Console(highlight=False).print(topics_table(fitted, n, prune_tol, by=by))
        return
    components = _components(fitted, n, by)
    if json:
        sys.stdout.write(to_json(components))
    if output is not None:
        rows = [
            (c["component"], c["share"], place, str(top["feature"]), top["weight"])
            for c in components
            for place, top in enumerate(c["features"], start=1)
        ]
        names = ("component", "share", "place", "feature", "weight")
        write_table({name: [row[i] for row in rows] for i, name in enumerate(names)}, output)


def topics_table(
    fitted: Fitted | GammaPoissonMF, n: int, prune_tol: float, *, by: str = "distinctive"
) -> Table:
    """Return a table with one row per component, that with the largest share first."""
    K, F = fitted.model_.n_components, fitted.model_.n_features
    shown = max(fitted.rank_, 1) if K > MAX_ROWS else K
    omitted = f"; {K - shown} below {prune_tol:.1%} are not shown" if shown < K else ""
    table = Table(
        box=SIMPLE_HEAD,
        title=f"{K} components of {F:,} features, by their share of the counts{omitted}",
        title_justify="left",
    )
    for name in ("", "share", "α"):
        table.add_column(name, justify="right", style=None if name else "dim")
    first = "largest" if by == "weight" else "most distinctive"
    table.add_column(f"{first} features, and their weights")
    for component in _components(fitted, n, by)[:shown]:
        tops = component["features"]
        visible = visible_features(np.array([top["weight"] for top in tops]))
        words = Words(
            [
                Text.assemble(str(top["feature"]), (f" {100 * top['weight']:.1f}%", "dim"))
                for top, seen in zip(tops, visible, strict=True)
                if seen
            ]
        )
        share, alpha = f"{component['share']:.1%}", f"{component['alpha']:.3g}"
        table.add_row(str(component["component"]), share, alpha, words)
    return table


def _components(fitted: Fitted | GammaPoissonMF, n: int, by: str) -> list[dict[str, Any]]:
    """Return all components, that with the largest share first."""
    model, names = fitted.model_, getattr(fitted, "feature_names_in_", None)
    tops = top_features(model, fitted.feature_counts_, n, by=by, names=names)
    return [
        {
            "component": int(k),
            "share": float(model.shares[k]),
            "alpha": float(model.alpha[k]),
            "features": [{"feature": name, "weight": weight} for name, weight in tops[k]],
        }
        for k in np.argsort(-model.shares, kind="stable")
    ]


def run_info(path: Path, *, json: bool) -> None:
    """Describe a model or a checkpoint."""
    try:
        content = _describe_model(*read_model(path))
    except StorageError as error:
        try:
            content = _describe_checkpoint(storage.read(path, "checkpoint"))
        except StorageError:
            raise error from None
    if json:
        sys.stdout.write(to_json(content))
        return
    width = max(map(len, content))
    indent = " " * (width + 2)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**9
    for name, value in content.items():
        line = f"{name:{width}}  {_format(value)}"
        typer.echo(textwrap.fill(line, columns, break_on_hyphens=False, subsequent_indent=indent))


def _describe_model(parameters: dict[str, Any], fitted: Fitted) -> dict[str, Any]:
    model, history, n_iter = fitted.model_, fitted.history_, fitted.n_iter_
    return {
        "kind": "model",
        "components": model.n_components,
        "features": model.n_features,
        "feature names": fitted.feature_names_in_ is not None,
        "rank": fitted.rank_,
        "largest share": float(model.shares.max()),
        "alpha": [float(model.alpha.min()), float(model.alpha.max())],
        "iterations": n_iter,
        "converged": fitted.converged_,
        "seconds": float(history["seconds"][-1]) if n_iter else 0.0,
        "sweeps": int(history["n_sweeps"][-1]) if n_iter else 0,
        "log likelihood": fitted.log_likelihood_,
        "pseudo-count": fitted.pseudo_count_,
        "log prior": model.log_prior(fitted.pseudo_count_),
        "parameters": _shorten(parameters),
    }


def _describe_checkpoint(content: dict[str, Any]) -> dict[str, Any]:
    state = content["state"]
    run = state.get("monte_carlo") or state.get("ascent")
    n_iter = state["n_iter_"] if content["finished"] else run["run"]["n_iter"] if run else 0
    return {
        "kind": "checkpoint",
        "finished": bool(content["finished"]),
        "iterations": n_iter,
        "parameters": _shorten(content["parameters"]),
    }


def _shorten(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that are set, with arrays as their shapes."""
    return {
        name: f"an array {value.shape}" if getattr(value, "shape", ()) else value
        for name, value in parameters.items()
        if value is not None
    }


def _format(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}={_format(item)}" for name, item in value.items())
        case [low, high]:
            return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case int():
            return f"{value:,}"
        case None:
            return "not computed"
        case _:
            return str(value)
