"""rates: how fast EM-C and EM-CH converge, over the scale of W. The paper's open question.

With one E-step EM-C and EM-CH give the same column directions, and norms that relate by
S_CH = S_C (β+S)/(β+S_C). Differentiated at a stationary point this is

    J_CH = R + (I − R) J_C,        R = w_k 1ᵀ / (S_k + β_k) on each column k,

so EM-CH contracts no faster than max_k ρ_k, ρ_k = S_k/(S_k+β_k): its rate tends to one as the
counts grow. EM-C has no such bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.exact_em import em_c_step, em_ch_step
from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.estimator import GammaPoissonMF
from gapmf.model import GaP
from gapmf.reproduce.cache import ResultCache
from gapmf.reproduce.results import (
    COLOURS,
    DASHED,
    LABELS,
    Experiment,
    Options,
    Outcome,
    new_figure,
)
from gapmf.types import Array

Step = Callable[[GaP, Expectation], GaP]

_STEP = 1e-4  # relative to a row of W: truncation and rounding errors balance near here


class Rates(NamedTuple):
    """Eigenvalues of the two EM maps at a stationary point, in descending order, and ρ_k (K,)."""

    em_c: Array
    em_ch: Array
    rho: Array


def convergence_rates(expect: ExactExpectation, model: GaP) -> Rates:
    """Compute the eigenvalues of both Jacobians at a stationary point; the first is the rate."""
    em_c, em_ch = (
        np.sort(np.linalg.eigvals(jacobian(expect, model, step)).real)[::-1]
        for step in (em_c_step, em_ch_step)
    )
    return Rates(em_c, em_ch, model.column_norms / (model.column_norms + model.beta))


def jacobian(expect: ExactExpectation, model: GaP, step: Step) -> Array:
    """Differentiate an EM map at `model` by finite differences: (FK, FK), W in C order.

    Differences are central where w_fk allows it, else one-sided, of second order too.
    """

    def image(W: Array) -> Array:
        here = GaP(W, model.alpha, model.beta)
        return step(here, expect.e_step(here)).W.ravel()

    def moved(place: tuple[int, ...], by: float) -> Array:
        V = model.W.copy()
        V[place] += by
        return image(V)

    centre = image(model.W)
    columns = []
    for place in np.ndindex(*model.W.shape):
        h = _STEP * model.W[place[0]].sum()
        if h == 0.0:  # a feature without counts stays at zero
            columns.append(np.zeros(model.W.size))
        elif model.W[place] > h:
            columns.append((moved(place, h) - moved(place, -h)) / (2 * h))
        else:
            columns.append((4 * moved(place, h) - moved(place, 2 * h) - 3 * centre) / (2 * h))
    return np.stack(columns, axis=1)


def observed_rate(expect: ExactExpectation, model: GaP, step: Step, *, n_iter: int) -> float:
    """Measure the factor by which the distance to `model` shrinks per iteration.

    The iterates start near `model`. The distance is scaled back to its first size whenever it is
    small, so that rounding does not end the sequence before the slowest direction dominates.
    """
    rng = np.random.default_rng(0)
    off = model.W * rng.uniform(-1e-4, 1e-4, model.W.shape)
    room = 1e-4 * model.W.sum(axis=1, keepdims=True)  # zeros can only grow
    off = np.where(room > model.W, room * rng.random(model.W.shape), off)
    first = float(np.linalg.norm(off))
    ratio = np.nan
    for _ in range(n_iter):
        here = GaP(np.maximum(model.W + off, 0.0), model.alpha, model.beta)
        moved = step(here, expect.e_step(here)).W - model.W
        before, after = float(np.linalg.norm(off)), float(np.linalg.norm(moved))
        ratio = after / before
        if after == 0.0:
            return 0.0
        off = moved * (first / after if after < 0.1 * first else 1.0)
    return ratio


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


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the rates of every data set, by eigenvalues and from iterates."""
    sizes = {name: getattr(config, name) for name in ("n_components", "n_samples", "n_iter")}
    scales = np.geomspace(config.smallest, config.largest, config.n_scales)
    cases = [
        {"scale": float(scale), "seed": options.seed + i, **sizes}
        for scale in scales
        for i in range(config.n_sets)
    ]
    curves = cache.table("rates", cases, _measure)
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
    return Outcome({"seed": options.seed, **asdict(config)}, curves, findings)


def _measure(
    scale: float, seed: int, n_components: int, n_samples: int, n_iter: int
) -> dict[str, Any]:
    X, _ = paper_synthetic(scale, n_samples, random_state=seed)
    est = GammaPoissonMF(n_components, algorithm="exact", random_state=seed).fit(X)
    expect = ExactExpectation(check_counts(X))
    rates = convergence_rates(expect, est.model_)
    return {
        "scale": scale,
        "seed": seed,
        "rho": float(rates.rho.max()),
        "em_c": float(rates.em_c[0]),
        "em_ch": float(rates.em_ch[0]),
        "em_c_seen": observed_rate(expect, est.model_, em_c_step, n_iter=n_iter),
        "em_ch_seen": observed_rate(expect, est.model_, em_ch_step, n_iter=n_iter),
    }


def _per_digit(rate: Any) -> Any:
    """Return the number of iterations that reduce the distance tenfold."""
    return -np.log(10.0) / np.log(np.clip(rate, 1e-6, 1.0 - 1e-9))


def draw(outcome: Outcome) -> Any:
    """Draw the rates against the scale, and the iterations per digit."""
    figure, axes = new_figure(2)
    curves = outcome.curves
    scales = np.unique(curves["scale"])
    rho = np.array([np.median(curves["rho"][curves["scale"] == s]) for s in scales])
    labels = ("$\\rho = S/(S+\\beta)$", "from $\\rho$ alone")
    for ax, of, label in zip(axes, (lambda x: x, _per_digit), labels, strict=True):
        for name, algorithm in (("em_ch", "mcem-ch"), ("em_c", "mcem-c")):
            values, colour = of(curves[name]), COLOURS[algorithm]
            middle = [np.median(values[curves["scale"] == s]) for s in scales]
            ax.plot(scales, middle, color=colour, label=LABELS[algorithm].removeprefix("MC"))
            ax.plot(curves["scale"], values, ".", color=colour, markersize=4, alpha=0.5)
        ax.plot(scales, of(rho), label=label, **DASHED)
        ax.set(xscale="log", xlabel="scale of $W^*$")
        ax.legend()
    axes[0].set_ylabel("rate: factor of the distance per iteration")
    axes[1].set(ylabel="iterations per digit", yscale="log")
    return figure


RATES = Experiment(
    "convergence rates over the scale of W, K = 2",
    Config(),
    Config(n_scales=3, n_sets=1, n_iter=60),
    run,
    draw,
)
