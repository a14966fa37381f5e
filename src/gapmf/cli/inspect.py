"""`gapmf topics`: what the components are.

`gapmf info`: what a file holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import gapmf.storage as storage
from gapmf.cli.files import check_output, print_json, write_table
from gapmf.errors import StorageError
from gapmf.estimator import GammaPoissonMF

MANY = 40  # components, of which small ones are not listed


def run_topics(path: Path, n: int, output: Path | None, *, json: bool) -> None:
    """Show them, or write them."""
    check_output(output)
    est = GammaPoissonMF.load(path)
    if json:
        print_json(_components(est, n))
    elif output is None:
        Console(highlight=False).print(topics_table(est, n))
    if output is not None:
        write_table(_columns(est, n), output)


def topics_table(est: GammaPoissonMF, n: int) -> Table:
    """A row a component, the largest first: its share, α, and its features with weights."""
    K, F = est.model_.n_components, est.n_features_in_
    few = max(est.rank_, 1) if K > MANY else K
    left = f"; {K - few} below {est.prune_tol:.1%} are left out" if few < K else ""
    table = Table(
        box=SIMPLE_HEAD,
        title=f"{K} components of {F:,} features, by their share of the counts{left}",
        title_justify="left",
    )
    table.add_column("", justify="right", style="dim")
    table.add_column("share", justify="right")
    table.add_column("α", justify="right")
    table.add_column("largest features, and their part of the component in %")
    for component in _components(est, n)[:few]:
        words = "  ".join(
            f"{escape(str(top['feature']))}\u00a0[dim]{100 * top['weight']:.1f}[/]"
            for top in component["features"]
        )
        table.add_row(
            str(component["component"]),
            f"{component['share']:.1%}",
            f"{component['alpha']:.3g}",
            words,
        )
    return table


def _components(est: GammaPoissonMF, n: int) -> list[dict[str, Any]]:
    """All components, the largest first."""
    tops, shares = est.top_features(n), est.model_.shares
    return [
        {
            "component": int(k),
            "share": float(shares[k]),
            "alpha": float(est.alpha_[k]),
            "features": [{"feature": name, "weight": part} for name, part in tops[k]],
        }
        for k in np.argsort(-shares, kind="stable")
    ]


def _columns(est: GammaPoissonMF, n: int) -> dict[str, list[Any]]:
    """A row for each feature that is shown."""
    rows = [
        (c["component"], c["share"], place + 1, str(top["feature"]), top["weight"])
        for c in _components(est, n)
        for place, top in enumerate(c["features"])
    ]
    names = ("component", "share", "place", "feature", "weight")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def run_info(path: Path, *, json: bool) -> None:
    """Of a model or a checkpoint."""
    try:
        content = _of_model(GammaPoissonMF.load(path))
    except StorageError as error:
        try:
            content = _of_checkpoint(storage.read(path, "checkpoint"))
        except StorageError:
            raise error from None
    if json:
        print_json(content)
        return
    width = max(map(len, content))
    for name, value in content.items():
        typer.echo(f"{name:{width}}  {_said(value)}")


def _of_model(est: Any) -> dict[str, Any]:
    alpha, shares = est.alpha_, est.model_.shares
    names = getattr(est, "feature_names_in_", None)
    asked = {name: _short(value) for name, value in est.get_params().items() if value is not None}
    return {
        "kind": "model",
        "components": est.model_.n_components,
        "features": est.n_features_in_,
        "feature names": names is not None,
        "rank": est.rank_,
        "largest share": float(shares.max()),
        "alpha": [float(alpha.min()), float(alpha.max())],
        "iterations": est.n_iter_,
        "converged": est.converged_,
        "seconds": float(est.history_["seconds"][-1]) if est.n_iter_ else 0.0,
        "sweeps": int(est.history_["n_sweeps"][-1]) if est.n_iter_ else 0,
        "log likelihood": getattr(est, "log_likelihood_", None),
        "parameters": asked,
    }


def _of_checkpoint(content: dict[str, Any]) -> dict[str, Any]:
    state = content["state"]
    done = 0
    if isinstance(state, dict):
        of_fit = state.get("fitted", {}).get("history_") if content["finished"] else None
        history = of_fit or state.get("history")
        done = len(history["seconds"]) if isinstance(history, dict) else 0
    given = {k: _short(v) for k, v in content["parameters"].items() if v is not None}
    return {
        "kind": "checkpoint",
        "finished": bool(content["finished"]),
        "iterations": done,
        "parameters": given,
    }


def _short(value: Any) -> Any:
    return f"an array {value.shape}" if hasattr(value, "shape") and value.shape else value


def _said(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}={_said(item)}" for name, item in value.items())
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
