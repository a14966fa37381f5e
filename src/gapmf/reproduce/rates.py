"""rates: how fast EM-C and EM-CH converge, over α and the scale of W. The paper's open question.

With one E-step EM-C and EM-CH give the same column directions, and norms that relate by
S_CH = S_C (β+S)/(β+S_C). Differentiated at a stationary point this is

    J_CH = R + (I − R) J_C,        R = w_k 1ᵀ / (S_k + β_k) on each column k,

so EM-CH contracts no faster than max_k ρ_k, ρ_k = S_k/(S_k+β_k). EM-C has no such bound. The size
of component k in a sample is negative binomial, L_k ~ NB(α_k, ρ_k), and Var[L_k]/E[L_k] is
1/(1 − ρ_k): ρ_k is over-dispersion itself, 1 − 1/(Fano factor).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from gapmf.counts import check_counts
from gapmf.datasets import paper_model
from gapmf.em.exact_em import em_c_step, em_ch_step
from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.estimator import GammaPoissonMF
from gapmf.model import GaP
from gapmf.reproduce.cache import FITS, ResultCache
from gapmf.reproduce.results import (
    COLOURS,
    DASHED,
    LABELS,
    Experiment,
    Options,
    Outcome,
    new_figure,
    quantiles,
)
from gapmf.types import Array

Step = Callable[[GaP, Expectation], GaP]

MOST_SHOWN = 3e5  # iterations per digit; where a column converges to zero, there may be no rate
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
    """Data as in the paper's synthetic experiment, with the true K, at many α and scales.

    The expected counts are those of W₁* with α = 1, times the scale: W* = (scale/α) W₁*.
    """

    alphas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0, 50.0)
    scales: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    n_sets: int = 5
    n_components: int = 2
    n_samples: int = 100
    n_iter: int = 300


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the rates of every data set, by eigenvalues and from iterates."""
    sizes = {name: getattr(config, name) for name in ("n_components", "n_samples", "n_iter")}
    cases = [
        {"alpha": alpha, "scale": scale, "data_seed": options.seed + i, **sizes}
        | {"fit_seed": FITS + options.seed + i}
        for alpha in config.alphas
        for scale in config.scales
        for i in range(config.n_sets)
    ]
    curves = cache.table("rates", cases, _measure)
    for name in ("em_c", "em_ch"):
        curves[f"{name}_per_digit"] = per_digit(curves[name])
    findings = {
        "em_ch_below_rho": int((curves["em_ch"] < curves["rho"] - 1e-4).sum()),
        "slower_than_shown": int((curves["em_c_per_digit"] > MOST_SHOWN).sum()),
        "em_c_above_em_ch": int((curves["em_c"] > curves["em_ch"] + 1e-4).sum()),
        "largest_gap_of_eigenvalue_and_iterates": {
            a: float(np.abs(curves[a] - curves[f"{a}_seen"]).max()) for a in ("em_c", "em_ch")
        },
        "medians": [
            _medians({name: column[these] for name, column in curves.items()}, alpha, scale)
            for alpha in config.alphas
            for scale in config.scales
            if (these := (curves["alpha"] == alpha) & (curves["scale"] == scale)).any()
        ],
    }
    return Outcome({"seed": options.seed, **asdict(config)}, curves, findings)


def _medians(rows: dict[str, Any], alpha: float, scale: float) -> dict[str, Any]:
    names = ("rho", "em_c_per_digit", "em_ch_per_digit")
    return (
        {"alpha": alpha, "scale": scale, "data_sets": int(rows["rho"].size)}
        | {name: float(np.median(rows[name])) for name in names}
        | {"fano": float(np.median(1.0 / (1.0 - rows["rho"])))}
        | {"ratio": quantiles(rows["em_ch_per_digit"] / rows["em_c_per_digit"])}
    )


def _measure(
    alpha: float,
    scale: float,
    data_seed: int,
    fit_seed: int,
    n_components: int,
    n_samples: int,
    n_iter: int,
) -> dict[str, Any]:
    truth = paper_model(scale / alpha)
    X = GaP(truth.W, alpha).sample(n_samples, random_state=data_seed)
    est = GammaPoissonMF(n_components, algorithm="exact", alpha=alpha, random_state=fit_seed)
    est.fit(X)
    expect = ExactExpectation(check_counts(X))
    rates = convergence_rates(expect, est.model_)
    return {
        "alpha": alpha,
        "scale": scale,
        "data_seed": data_seed,
        "fit_seed": fit_seed,
        "rho": float(rates.rho.max()),
        "smallest_share": float(est.model_.shares.min()),
        "em_c": float(rates.em_c[0]),
        "em_ch": float(rates.em_ch[0]),
        "em_c_seen": observed_rate(expect, est.model_, em_c_step, n_iter=n_iter),
        "em_ch_seen": observed_rate(expect, est.model_, em_ch_step, n_iter=n_iter),
    }


def per_digit(rate: Any) -> Any:
    """Return the number of iterations that reduce the distance tenfold."""
    return -np.log(10.0) / np.log(np.clip(rate, 1e-6, 1.0 - 1e-9))


def draw(outcome: Outcome) -> Any:
    """Draw iterations per digit against the Fano factor, and how many times fewer EM-C needs."""
    figure, (left, right) = new_figure(2, 9.6, 4.2)
    curves, medians = outcome.curves, outcome.findings["medians"]
    fano = 1.0 / (1.0 - curves["rho"])
    for name, algorithm in (("em_ch", "mcem-ch"), ("em_c", "mcem-c")):
        style = {"color": COLOURS[algorithm], "markersize": 4, "alpha": 0.6}
        label = LABELS[algorithm].removeprefix("MC")
        left.plot(fano, curves[f"{name}_per_digit"], ".", label=label, **style)
    x = np.geomspace(fano.min(), fano.max(), 100)
    left.plot(x, per_digit(1.0 - 1.0 / x), label="the bound ρ of EM-CH", **DASHED)
    left.set_ylabel("iterations per digit, one dot per data set")
    left.set_ylim(0.3, MOST_SHOWN)
    alphas = outcome.settings["alphas"]
    shades = [str(grey) for grey in np.linspace(0.0, 0.75, len(alphas))]
    for alpha, shade in zip(alphas, shades, strict=True):
        mine = sorted((m for m in medians if m["alpha"] == alpha), key=lambda m: m["fano"])
        ratio = [m["ratio"][2] for m in mine]
        line = {"color": shade, "marker": "o", "markersize": 4}
        right.plot([m["fano"] for m in mine], ratio, label=f"α = {alpha:g}", **line)
    right.set_ylabel("EM-CH's iterations per digit / EM-C's, median")
    right.axhline(1.0, **DASHED)
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        ax.set_xlabel("Fano factor of the larger component")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3)
    right.legend(loc="upper left")
    return figure


RATES = Experiment(
    "convergence rates over α and the scale of W, K = 2",
    Config(),
    Config(alphas=(0.3, 1.0, 10.0), scales=(1.0, 1000.0), n_sets=1, n_samples=50),
    run,
    draw,
)
