"""`gapmf topics`: what the components are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gapmf.cli.tables import check_output, print_json, write_table
from gapmf.estimator import GammaPoissonMF

MANY = 40  # components, of which small ones are not listed


def run(path: Path, n: int, output: Path | None, *, json: bool) -> None:
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
