"""`gapmf info`: what a file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

import gapmf.storage as storage
from gapmf.cli.tables import print_json
from gapmf.errors import StorageError
from gapmf.estimator import GammaPoissonMF


def run(path: Path, *, json: bool) -> None:
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
