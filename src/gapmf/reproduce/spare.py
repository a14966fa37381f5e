"""spare: the share and the gain of a spare column at the exact maximum."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gapmf.datasets import paper_synthetic
from gapmf.estimator import GammaPoissonMF
from gapmf.reproduce.cache import ResultCache
from gapmf.reproduce.results import COLOURS, DASHED, INK, Experiment, Options, Outcome, new_figure

N_PARAMETERS = 4  # of one more column


@dataclass(frozen=True)
class Config:
    """Data as in the paper's synthetic experiment, fitted with K = 2 and with K = 3."""

    scales: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)
    n_sets: int = 50
    n_samples: int = 100


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Find both exact maxima of every data set."""
    cases = [
        {"scale": scale, "n_samples": config.n_samples, "seed": options.seed + i}
        for scale in config.scales
        for i in range(config.n_sets)
    ]
    curves = cache.table("spare", cases, _fit_both)
    price = 0.5 * N_PARAMETERS * np.log(config.n_samples)
    findings = {"bic_price": price} | {
        f"{scale:g}": _findings({k: v[curves["scale"] == scale] for k, v in curves.items()}, price)
        for scale in config.scales
    }
    return Outcome({"seed": options.seed, **asdict(config)}, curves, findings)


def _fit_both(scale: float, n_samples: int, seed: int) -> dict[str, Any]:
    X, _ = paper_synthetic(scale, n_samples, random_state=seed)
    two, three = (GammaPoissonMF(K, algorithm="exact", random_state=seed).fit(X) for K in (2, 3))
    return {
        "scale": scale,
        "seed": seed,
        "share": float(three.model_.shares.min()),
        "gain": three.log_likelihood_ - two.log_likelihood_,
        "max_r": float(two.certificate_.r.max()),
        "projected_gradient": three.certificate_.projected_gradient,
        "converged": bool(two.converged_ and three.converged_),
    }


def _findings(rows: dict[str, Any], price: float) -> dict[str, Any]:
    quarters = [0, 25, 50, 75, 100]
    return {
        "exactly_zero": int((rows["share"] < 1e-8).sum()),
        "share_quartiles": np.percentile(rows["share"], quarters),
        "gain_quartiles": np.percentile(rows["gain"], quarters),
        "score_above_one": int((rows["max_r"] > 1.0).sum()),
        "worth_bic": int((rows["gain"] > price).sum()),
        "not_converged": int((~rows["converged"]).sum()),
    }


def draw(outcome: Outcome) -> Any:
    """Draw share and gain of the third column, one dot per data set."""
    figure, (left, right) = new_figure(2)
    curves = outcome.curves
    scales = np.unique(curves["scale"])
    rng = np.random.default_rng(0)
    for ax, column in ((left, 100.0 * curves["share"]), (right, curves["gain"])):
        for i, scale in enumerate(scales):
            values = column[curves["scale"] == scale]
            beside = i + rng.uniform(-0.18, 0.18, values.size)
            ax.plot(beside, values, ".", color=COLOURS["mcem-c"], alpha=0.55, markersize=5)
            ax.hlines(np.median(values), i - 0.3, i + 0.3, color=INK, linewidth=1.6)
        ax.set_xticks(range(scales.size), [f"{s:g}" for s in scales])
        ax.set_xlabel("scale of $W^*$")
        ax.grid(visible=False, axis="x")
    left.set_ylabel("share of the spare column, %")
    right.set_ylabel("gain in log-likelihood, nats")
    price = outcome.findings["bic_price"]
    right.axhline(price, label="BIC's price", **DASHED)
    right.legend(loc="upper right")
    right.set_ylim(top=1.12 * max(price, curves["gain"].max()))
    return figure


SPARE = Experiment(
    "the spare column at the exact maximum, K = 3 for a truth of 2",
    Config(),
    Config(scales=(1.0, 100.0), n_sets=2),
    run,
    draw,
)
