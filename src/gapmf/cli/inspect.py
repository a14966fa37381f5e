"""`gapmf topics` shows the components of a model; `gapmf info` describes a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import gapmf.storage as storage
from gapmf.errors import StorageError
from gapmf.estimator import GammaPoissonMF
from gapmf.output import check_output, to_json, write_table

MAX_ROWS = 40  # with more components, those below `prune_tol` are not listed


def run_topics(path: Path, n: int, output: Path | None, *, json: bool) -> None:
    """Show the components, or write them."""
    check_output(output)
    est = GammaPoissonMF.load(path)
    components = _components(est, n)
    if json:
        sys.stdout.write(to_json(components))
    elif output is None:
        Console(highlight=False).print(topics_table(est, n))
    if output is not None:
        rows = [
            (c["component"], c["share"], place, str(top["feature"]), top["weight"])
            for c in components
            for place, top in enumerate(c["features"], start=1)
        ]
        names = ("component", "share", "place", "feature", "weight")
        write_table({name: [row[i] for row in rows] for i, name in enumerate(names)}, output)


def topics_table(est: GammaPoissonMF, n: int) -> Table:
    """Return a table with one row per component, the largest first."""
    K, F = est.model_.n_components, est.n_features_in_
    shown = max(est.rank_, 1) if K > MAX_ROWS else K
    omitted = f"; {K - shown} below {est.prune_tol:.1%} are not shown" if shown < K else ""
    table = Table(
        box=SIMPLE_HEAD,
        title=f"{K} components of {F:,} features, by their share of the counts{omitted}",
        title_justify="left",
    )
    for name in ("", "share", "α"):
        table.add_column(name, justify="right", style=None if name else "dim")
    table.add_column("largest features, and their weight in the component in %")
    for component in _components(est, n)[:shown]:
        words = "  ".join(
            f"{escape(str(top['feature']))}\u00a0[dim]{100 * top['weight']:.1f}[/]"
            for top in component["features"]
        )
        share, alpha = f"{component['share']:.1%}", f"{component['alpha']:.3g}"
        table.add_row(str(component["component"]), share, alpha, words)
    return table


def _components(est: GammaPoissonMF, n: int) -> list[dict[str, Any]]:
    """Return all components, the largest first."""
    tops, shares = est.top_features(n), est.model_.shares
    return [
        {
            "component": int(k),
            "share": float(shares[k]),
            "alpha": float(est.alpha_[k]),
            "features": [{"feature": name, "weight": weight} for name, weight in tops[k]],
        }
        for k in np.argsort(-shares, kind="stable")
    ]


def run_info(path: Path, *, json: bool) -> None:
    """Describe a model or a checkpoint."""
    try:
        content = _describe_model(GammaPoissonMF.load(path))
    except StorageError as error:
        try:
            content = _describe_checkpoint(storage.read(path, "checkpoint"))
        except StorageError:
            raise error from None
    if json:
        sys.stdout.write(to_json(content))
        return
    width = max(map(len, content))
    for name, value in content.items():
        typer.echo(f"{name:{width}}  {_format(value)}")


def _describe_model(est: Any) -> dict[str, Any]:
    alpha, shares = est.alpha_, est.model_.shares
    return {
        "kind": "model",
        "components": est.model_.n_components,
        "features": est.n_features_in_,
        "feature names": hasattr(est, "feature_names_in_"),
        "rank": est.rank_,
        "largest share": float(shares.max()),
        "alpha": [float(alpha.min()), float(alpha.max())],
        "iterations": est.n_iter_,
        "converged": est.converged_,
        "seconds": float(est.history_["seconds"][-1]) if est.n_iter_ else 0.0,
        "sweeps": int(est.history_["n_sweeps"][-1]) if est.n_iter_ else 0,
        "log likelihood": getattr(est, "log_likelihood_", None),
        "parameters": _shorten(est.get_params()),
    }


def _describe_checkpoint(content: dict[str, Any]) -> dict[str, Any]:
    state, run = content["state"], content["state"].get("monte_carlo")
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
