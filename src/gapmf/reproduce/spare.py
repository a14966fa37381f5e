"""spare: the shares and the gain of spare columns at the exact maximum."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from gapmf.datasets import paper_model
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import FITS, ResultCache
from gapmf.reproduce.results import (
    COLOURS,
    DASHED,
    INK,
    Experiment,
    Options,
    Outcome,
    new_figure,
    quantiles,
)

N_TRUE = 2
N_PARAMETERS = 4  # of one more column
ZERO = 1e-8  # a share below this is a column that is exactly zero
FRESH = 500_000  # added to the seed: the seed of the held-out samples


@dataclass(frozen=True)
class Cell:
    """Data as in the paper's synthetic experiment: W* = (scale/α) W₁*, and spare columns."""

    scale: float
    n_samples: int = 100
    alpha: float = 1.0
    n_spare: int = 1


CELLS = (  # the costly ones last
    Cell(1.0),
    Cell(10.0),
    Cell(100.0),
    Cell(1.0, n_spare=2),
    Cell(1.0, n_spare=4),
    Cell(1.0, alpha=0.3),
    Cell(1.0, alpha=3.0),
    Cell(1.0, n_samples=1000),
    Cell(1.0, n_samples=1000, alpha=0.3),
    Cell(1.0, n_samples=1000, alpha=3.0),
    Cell(100.0, alpha=0.3),
    Cell(100.0, alpha=3.0),
    Cell(10.0, n_spare=2),
    Cell(100.0, n_samples=1000),
    Cell(1000.0),
)


@dataclass(frozen=True)
class Config:
    """Cells, each with `n_sets` data sets, judged on `n_fresh` other samples."""

    cells: tuple[Cell, ...] = CELLS
    n_sets: int = 20
    n_fresh: int = 1000


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Find the exact maxima of every data set, with the true K and with spare columns."""
    cases = [
        asdict(cell)
        | {"data_seed": options.seed + i, "fit_seed": FITS + options.seed + i}
        | {"n_fresh": config.n_fresh}
        for cell in config.cells
        for i in range(config.n_sets)
    ]
    curves = cache.table("spare", cases, _fit_both)
    cells = []
    for cell in config.cells:
        mine = np.all([curves[key] == value for key, value in asdict(cell).items()], axis=0)
        if mine.any():
            found = _findings({key: column[mine] for key, column in curves.items()}, cell)
            cells.append(asdict(cell) | found)
    return Outcome({"seed": options.seed, **asdict(config)}, curves, {"cells": cells})


def bic_price(cell: Cell) -> float:
    """Return what BIC charges for the spare columns, in nats."""
    return float(0.5 * N_PARAMETERS * cell.n_spare * np.log(cell.n_samples))


def _fit_both(
    scale: float,
    n_samples: int,
    alpha: float,
    n_spare: int,
    data_seed: int,
    fit_seed: int,
    n_fresh: int,
) -> dict[str, Any]:
    truth = GaP(paper_model(scale / alpha).W, alpha)
    X = truth.sample(n_samples, random_state=data_seed)
    fresh = truth.sample(n_fresh, random_state=FRESH + data_seed)
    lean, rich = (
        GammaPoissonMF(K, algorithm="exact", alpha=alpha, random_state=fit_seed).fit(X)
        for K in (N_TRUE, N_TRUE + n_spare)
    )
    held_out = [log_marginal_likelihood(fresh, est.model_).total / n_fresh for est in (lean, rich)]
    shares = np.sort(rich.model_.shares)[:n_spare]
    return {
        "scale": scale,
        "n_samples": n_samples,
        "alpha": alpha,
        "n_spare": n_spare,
        "data_seed": data_seed,
        "fit_seed": fit_seed,
        "share": float(shares.sum()),
        "exactly_zero": int((shares < ZERO).sum()),
        "gain": rich.log_likelihood_ - lean.log_likelihood_,
        "held_out_gain": held_out[1] - held_out[0],
        "max_r": float(lean.certificate_.r.max()),
        "projected_gradient": rich.certificate_.projected_gradient,
        "converged": bool(lean.converged_ and rich.converged_),
    }


def _findings(rows: dict[str, Any], cell: Cell) -> dict[str, Any]:
    price = bic_price(cell)
    return {
        "bic_price": price,
        "data_sets": int(rows["gain"].size),
        "columns_exactly_zero": int(rows["exactly_zero"].sum()),
        "share": quantiles(rows["share"]),
        "gain": quantiles(rows["gain"]),
        "held_out_gain": quantiles(rows["held_out_gain"]),
        "score_above_one": int((rows["max_r"] > 1.0).sum()),
        "worth_bic": int((rows["gain"] > price).sum()),
        "not_converged": int((~rows["converged"]).sum()),
        "largest_projected_gradient": float(rows["projected_gradient"].max()),
    }


def draw(outcome: Outcome) -> Any:
    """Draw shares and gains of the spare columns, one dot per data set and one row per cell."""
    names = [field.name for field in fields(Cell)]
    cells = [Cell(*(cell[name] for name in names)) for cell in outcome.findings["cells"]]
    figure, (left, right) = new_figure(2, 9.6, 1.4 + 0.33 * len(cells))
    curves, rng = outcome.curves, np.random.default_rng(0)
    for i, cell in enumerate(cells):
        mine = np.all([curves[key] == value for key, value in asdict(cell).items()], axis=0)
        for ax, values in ((left, 100.0 * curves["share"][mine]), (right, curves["gain"][mine])):
            beside = i + rng.uniform(-0.2, 0.2, values.size)
            style = {"color": COLOURS["mcem-c"], "alpha": 0.55, "markersize": 5}
            ax.plot(values, beside, ".", label=None if i else "one data set", **style)
            label = None if i else "their median"
            ax.vlines(np.median(values), i - 0.32, i + 0.32, color=INK, linewidth=1.6, label=label)
        label = None if i else "BIC's price"
        right.vlines(bic_price(cell), i - 0.4, i + 0.4, label=label, **DASHED)
    labels = [
        f"scale {c.scale:g}, N = {c.n_samples}, α = {c.alpha:g}, {c.n_spare} spare" for c in cells
    ]
    for ax in (left, right):
        ax.set_yticks(range(len(cells)), labels if ax is left else [""] * len(cells))
        ax.set_ylim(len(cells) - 0.4, -0.6)
        ax.grid(visible=False, axis="y")
    left.set_xlabel("share of the spare columns together, %")
    right.set_xlabel("gain in log-likelihood, nats")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=3)
    return figure


SPARE = Experiment(
    "spare columns at the exact maximum, for two true components",
    Config(),
    Config(cells=(Cell(1.0), Cell(100.0), Cell(1.0, n_spare=2)), n_sets=2, n_fresh=50),
    run,
    draw,
)
