"""rates: how fast EM-C and EM-CH converge, over the scale of W. The paper's open question."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.exact_moments import em_c_step, em_ch_step
from gapmf.em.expectation import ExactExpectation
from gapmf.em.rates import convergence_rates, observed_rate
from gapmf.estimator import GammaPoissonMF
from gapmf.reproduce.experiment import Experiment, Order
from gapmf.reproduce.outcome import Outcome
from gapmf.reproduce.pieces import Workshop
from gapmf.reproduce.style import COLOURS, INK, new_figure


@dataclass(frozen=True)
class Config:
    """Data as in the paper's synthetic experiment, at many scales, with the true K."""

    smallest: float = 0.1
    largest: float = 1000.0
    n_scales: int = 13
    n_sets: int = 5
    n_components: int = 2
    n_samples: int = 100
    n_iter: int = 300


def run(config: Config, order: Order, shop: Workshop) -> Outcome:
    """The rates of every data set, by eigenvalues and as seen in iterates."""
    scales = np.geomspace(config.smallest, config.largest, config.n_scales)
    cases = [(float(s), order.seed + i) for s in scales for i in range(config.n_sets)]
    done = iter(range(1, len(cases) + 1))

    def one(scale: float, seed: int) -> dict[str, Any]:
        settings = {**asdict(config), "scale": scale, "seed": seed}
        found = shop.take("rates", settings, lambda: _measure(config, scale, seed))
        shop.tell("rates", next(done), len(cases))
        return dict(found)

    rows = shop.side_by_side([partial(one, *case) for case in cases])
    curves = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    findings = {
        "em_ch_below_rho": int((curves["em_ch"] < curves["rho"] - 1e-4).sum()),
        "largest_gap_of_eigenvalue_and_iterates": {
            a: float(np.abs(curves[a] - curves[f"{a}_seen"]).max()) for a in ("em_c", "em_ch")
        },
        "median_iterations_per_digit": {
            a: {
                f"{s:g}": float(np.median(_per_digit(curves[a][curves["scale"] == s])))
                for s in np.unique(curves["scale"])
            }
            for a in ("em_c", "em_ch")
        },
    }
    return Outcome({"seed": order.seed, **asdict(config)}, curves, findings)


def _measure(config: Config, scale: float, seed: int) -> dict[str, Any]:
    X, _ = paper_synthetic(scale, config.n_samples, random_state=seed)
    est = GammaPoissonMF(config.n_components, algorithm="exact", random_state=seed).fit(X)
    expect = ExactExpectation(check_counts(X))
    rates = convergence_rates(expect, est.model_)
    seen = {
        f"{name}_seen": observed_rate(expect, est.model_, step, n_iter=config.n_iter)
        for name, step in (("em_c", em_c_step), ("em_ch", em_ch_step))
    }
    return {
        "scale": scale,
        "seed": seed,
        "rho": float(rates.rho.max()),
        "em_c": float(rates.em_c[0]),
        "em_ch": float(rates.em_ch[0]),
        **seen,
    }


def _per_digit(rate: Any) -> Any:
    """Iterations that a tenfold smaller distance takes."""
    return -np.log(10.0) / np.log(np.clip(rate, 1e-6, 1.0 - 1e-9))


def draw(outcome: Outcome) -> Any:
    """Rates against the scale, and the iterations that they mean."""
    figure, axes = new_figure(9.2, 3.7, 1, 2)
    curves = outcome.curves
    scales = np.unique(curves["scale"])
    labels = {"em_ch": ("EM-CH", COLOURS["mcem-ch"]), "em_c": ("EM-C", COLOURS["mcem-c"])}
    for name, (label, colour) in labels.items():
        for ax, of in ((axes[0, 0], lambda x: x), (axes[0, 1], _per_digit)):
            values = of(curves[name])
            middle = [np.median(values[curves["scale"] == s]) for s in scales]
            ax.plot(scales, middle, color=colour, label=label)
            ax.plot(curves["scale"], values, ".", color=colour, markersize=4, alpha=0.5)
    rho = [np.median(curves["rho"][curves["scale"] == s]) for s in scales]
    dashed = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 3))}
    axes[0, 0].plot(scales, rho, label="$\\rho = S/(S+\\beta)$", **dashed)
    axes[0, 1].plot(scales, _per_digit(np.array(rho)), label="by $\\rho$ alone", **dashed)
    axes[0, 0].set_ylabel("rate: what is left of the distance")
    axes[0, 1].set_ylabel("iterations per digit")
    axes[0, 1].set_yscale("log")
    for ax in axes[0]:
        ax.set_xscale("log")
        ax.set_xlabel("scale of $W^*$")
        ax.legend()
    return figure


RATES = Experiment(
    "convergence rates over the scale of W, K = 2",
    Config(),
    Config(n_scales=3, n_sets=1, n_iter=60),
    run,
    draw,
)
