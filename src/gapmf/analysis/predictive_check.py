"""Does the model fit? Statistics of the data beside those of data that are drawn from the model."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.analysis.pictures import COLOUR, FLAGGED, INK, QUIET, check_axes, tidy
from gapmf.analysis.replicates import (
    CountDraws,
    Spread,
    draw_activations,
    expected_feature_moments,
    feature_moments,
    statistics_of,
    two_sided_p,
)
from gapmf.model import GaP
from gapmf.parallel import Progress, for_each
from gapmf.types import Array, Index

LEVEL = 0.01  # p-values up to this are marked, and lead to advice
# Draws of all replicates together: of activations, and of tokens. The samples that exceed them
# are left out at random, but so many are kept.
ACTIVATION_WORK, TOKEN_WORK, LEAST_SAMPLES, MOST_SAMPLES = 1e7, 8e6, 50, 10_000
_BAND = (0.05, 0.95)
_LEARN = "learn_alpha=True, or --learn-alpha"  # in Python, and on the command line

# The statistics, in words; the last one is of the counts around their expected values.
STATISTICS = {
    "mean_total": "mean total",
    "cv_total": "spread of totals (CV)",
    "q05_total": "5 % quantile of totals",
    "median_total": "median of totals",
    "q95_total": "95 % quantile of totals",
    "zeros": "share of zeros",
    "dispersion": "over-dispersion of features",
    "dispersion_given_totals": "over-dispersion given totals",
    "largest": "largest count",
    "largest_per_sample": "mean of samples' largest counts",
    "residual": "spread around expected counts",
}


class Subset(NamedTuple):
    """The samples that are checked, in random order, and how many of them by their entries."""

    rows: Index  # (n,)
    n_entries: int


@dataclass(frozen=True, repr=False, eq=False)
class PredictiveCheck:
    """Statistics of data beside those of data that are drawn from the fitted model.

    Attributes
    ----------
    statistics : tuple of str
        Names of the statistics: "mean_total", "cv_total" (standard deviation over mean),
        "q05_total", "median_total" and "q95_total" of the samples' total counts; "zeros", the
        share of entries that are 0; "dispersion", the variance of a feature's counts beyond
        Poisson over its squared mean, averaged over tokens; "dispersion_given_totals", the part
        of it that different totals do not explain; "largest" and "largest_per_sample" counts;
        "residual", the variance of counts around their expected counts W h beyond Poisson,
        relative like "dispersion", where h is drawn from its posterior.
    observed : ndarray of shape (n_statistics,)
        Statistics of the data. "residual" depends on the draws of h; this is its mean.
    replicates : ndarray of shape (n_replicates, n_statistics)
        Statistics of the drawn data; for "residual", half as many (at most 1024), then nan.
    p_values : ndarray of shape (n_statistics,)
        Two-sided p-values: twice the smaller of the shares (1 + #) / (1 + n_replicates) of
        replicates at or below, and at or above, the observed value, at most 1. That of "residual"
        is one-sided: the share of draws in which a replicate is at least as spread as the data.
    n_samples : int
        Number of samples in the data.
    n_checked : int
        Number of samples, chosen at random, whose totals are compared.
    n_entries_checked : int
        Number of samples, chosen at random, whose single counts are compared.
    totals : ndarray of shape (n_checked,)
        Total counts of the checked samples, ascending.
    total_bands : ndarray of shape (3, n_checked)
        The 5 %, 50 % and 95 % quantiles over replicates of the ascending totals.
    feature_moments : ndarray of shape (2, n_features)
        Mean and variance of each feature in the data (over the samples whose counts are
        compared); nan for features that the model does not have.
    expected_moments : ndarray of shape (2, n_features)
        What the model expects of them.
    residuals : ndarray of shape (n_features,)
        The part of each feature in the observed "residual".
    largest_at : tuple of int
        Sample and feature of the largest count.
    alpha_learned : bool
        Whether the fit learned α.
    exposures : {"none", "given", "total"}
        Which exposures the samples have.
    feature_names : ndarray of str of shape (n_features,) or None
        Names of the features, if the estimator was fitted with names.
    """

    statistics: tuple[str, ...]
    observed: Array
    replicates: Array
    p_values: Array
    n_samples: int
    n_checked: int
    n_entries_checked: int
    totals: Array
    total_bands: Array
    feature_moments: Array
    expected_moments: Array
    residuals: Array
    largest_at: tuple[int, int]
    alpha_learned: bool
    exposures: str
    feature_names: NDArray[np.object_] | None = None

    def __repr__(self) -> str:
        found = [name for name in self.statistics if self._direction(name)]
        return f"PredictiveCheck({self.n_samples} samples, differ in: {', '.join(found) or '-'})"

    def __str__(self) -> str:
        low, middle, high = self.bands()
        lines = [f"{'statistic':<33} {'observed':>9} {'model':>9} {'90 % of draws':>21} {'p':>6}"]
        for i, name in enumerate(self.statistics):
            band = f"{write_short(low[i])} to {write_short(high[i])}"
            observed, model = write_short(self.observed[i]), write_short(middle[i])
            lines.append(
                f"{STATISTICS[name]:<33} {observed:>9} {model:>9} "
                f"{band:>21} {self.p_values[i]:>6.3f}{' *' if self._direction(name) else ''}"
            )
        notes = [f"*: p ≤ {LEVEL:g}. If the model is right, each is marked with this probability."]
        if self.n_checked < self.n_samples or self.n_entries_checked < self.n_samples:
            notes.append(
                f"To save time, totals are those of {self.n_checked:,} samples, and single counts "
                f"those of {self.n_entries_checked:,}, chosen at random from {self.n_samples:,}."
            )
        texts = [" ".join(notes), *(f"- {text}" for text in self.advice)]
        return "\n".join([*lines, "", *(fill(t, 86, subsequent_indent="  ") for t in texts)])

    @property
    def advice(self) -> list[str]:
        """Return what differs, and what to change, one sentence or two for each."""
        return _advise(self)

    def plot(self, axes: Any = None) -> Any:
        """Draw the totals, the variances of features, and all statistics, beside the model's.

        Needs Matplotlib, which the extra "plot" installs.

        Parameters
        ----------
        axes : sequence of three matplotlib Axes, default=None
            Where to draw. By default, a new figure.

        Returns
        -------
        sequence of three matplotlib Axes
            The axes; `axes[0].figure` is the figure.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(2, random_state=0).fit(X)
        >>> len(est.predictive_check(X).plot())
        3
        """
        axes = check_axes(axes, 3, (11.0, 3.6))
        _draw_totals(axes[0], self)
        _draw_moments(axes[1], self)
        _draw_statistics(axes[2], self)
        return axes

    def bands(self) -> Array:
        """Return the 5 %, 50 % and 95 % quantiles of the replicates.

        Returns
        -------
        ndarray of shape (3, n_statistics)
            Quantiles of each statistic.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.predictive_check([[4, 1], [1, 0], [3, 1]]).bands().shape
        (3, 11)
        """
        return np.nanquantile(self.replicates, [_BAND[0], 0.5, _BAND[1]], axis=0)

    def _direction(self, name: str) -> int:
        """Return 1 if the data have clearly more of this than the model, -1 if less, else 0."""
        i = self.statistics.index(name)
        if not self.p_values[i] <= LEVEL:
            return 0
        return 1 if self.observed[i] > self.bands()[1, i] else -1

    def _name(self, f: int) -> str:
        return f"feature {f}" if self.feature_names is None else f"{self.feature_names[f]!s}"


def write_short(value: float) -> str:
    """Write a statistic with about three digits."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    digits = 3 if abs(value) >= 0.01 else 2 if abs(value) >= 0.001 else 1
    return f"{value:.{digits}g}" if value else "0"


def _advise(found: PredictiveCheck) -> list[str]:
    """Say what differs, and which options change it."""
    depth, shares = found._direction("cv_total"), found._direction("dispersion_given_totals")
    residual, zeros = found._direction("residual"), found._direction("zeros")
    said = []
    if mean := found._direction("mean_total"):
        said.append(
            f"Samples have {'more' if mean > 0 else 'fewer'} counts than those of the fit, on "
            "average: these data differ from those that the model was fitted to."
        )
    if depth:
        said.append(_advise_on_depth(found, depth))
    if residual:
        most = ", ".join(found._name(int(f)) for f in np.argsort(-found.residuals)[:3])
        said.append(
            "Counts vary more around their expected values than Poisson counts do, most of all "
            f"those of {most}: take more components (select_rank, or gapmf select, compares "
            "numbers of them). If these do not predict better, the counts have noise that the "
            "model does not have."
        )
    elif shares:
        said.append(
            f"Samples differ {'more' if shares > 0 else 'less'} in what they consist of than those "
            "of the model: "
            + (
                "activations may depend on each other, which the model does not have."
                if found.alpha_learned
                else f"α is too {'large' if shares > 0 else 'small'}; learn it ({_LEARN})."
            )
        )
    if zeros and not (depth or shares or residual):
        said.append(
            f"There are {'more' if zeros > 0 else 'fewer'} zeros than in data of the model: more "
            "components may separate features that do not occur together."
        )
    if found._direction("largest") > 0 and not (depth > 0 or shares > 0 or residual):
        n, f = found.largest_at
        said.append(
            f"The largest count, of {found._name(f)} in sample {n}, is larger than the model's: "
            "look whether it is an error."
        )
    if said:
        return said
    marked = [STATISTICS[name] for name in found.statistics if found._direction(name)]
    if marked:
        return [f"Only {', '.join(marked)} differs from the model, for which there is no option."]
    return ["Nothing in these statistics speaks against the model."]


def _advise_on_depth(found: PredictiveCheck, depth: int) -> str:
    """Say what to do if totals are spread more (1) or less (-1) than the model's."""
    text = f"Totals of samples vary {'more' if depth > 0 else 'less'} than those of the model: "
    if found.exposures == "total":
        return text + "they are the exposures here, so their spread says nothing about the fit."
    if depth > 0:
        if not found.alpha_learned:
            text += f"α is too large; learn it ({_LEARN}). Or "
        if found.exposures == "given":
            return text + "samples differ in depth by more than their exposures."
        return text + (
            'samples differ in depth, which exposures describe: fit with exposure="total" '
            "(--exposure total). Proportions do not depend on totals."
        )
    if found.alpha_learned:
        return text + (
            "α is learned from how much samples differ in what they consist of; since activations "
            "are independent, totals then differ, too."
        )
    return text + f"α is too small for them; learn it ({_LEARN}), or set a larger one."


def choose_samples(
    counts: sp.csr_array, n_components: int, n_replicates: int, rng: np.random.Generator
) -> Subset:
    """Choose the samples to check, so that the cost is bounded."""
    N, F = counts.shape
    each = max(min(float(counts.sum()) / N, float(F)), 1.0)
    n, n_entries = (
        int(np.clip(work, LEAST_SAMPLES, MOST_SAMPLES))
        for work in (
            ACTIVATION_WORK / (n_replicates * n_components),
            TOKEN_WORK / (n_replicates * each),
        )
    )
    rows = rng.permutation(N)[:n]
    return Subset(rows, min(n_entries, rows.size))


def check_model_fit(
    counts: sp.csr_array,
    model: GaP,
    subset: Subset,
    posterior_draws: Array,
    *,
    n_replicates: int,
    seed: int,
    alpha_learned: bool,
    exposure: Array | None = None,
    totals_are_exposures: bool = False,
    feature_names: NDArray[Any] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PredictiveCheck:
    """Compare counts with draws from a model.

    `posterior_draws` are of the activations of the samples whose entries are compared, (S, N, K).
    `exposure` (N,) has one number for each sample, also of those that are not checked.
    Counts of features that the model does not have must have been removed.
    """
    known = np.asarray(model.W.any(axis=1))
    columns = np.flatnonzero(known)
    W, data = model.W[columns], sp.csr_array(counts[subset.rows][:, columns])
    n, m = data.shape[0], subset.n_entries
    entries, totals = data[:m], np.asarray(data.sum(axis=1), dtype=float)
    draws = CountDraws(W)
    exposed = np.ones((n, 1)) if exposure is None else exposure[subset.rows][:, None]

    def draw(r: int) -> tuple[Array, Array]:
        rng = np.random.default_rng([seed, r])
        h = draw_activations(model, n, rng) * exposed
        drawn = draws.draw(h[:m], rng)
        sums = np.concatenate([drawn.sum(axis=1), rng.poisson(h[m:] @ draws.norms)]).astype(float)
        return statistics_of(drawn, sums), np.sort(sums)

    found = for_each(draw, range(n_replicates), n_jobs, progress)
    replicates = np.full((n_replicates, len(STATISTICS)), np.nan)
    replicates[:, :-1] = [one[0] for one in found]
    observed = np.append(statistics_of(entries, totals), np.nan)
    p_values = two_sided_p(observed, replicates)

    # Around expected counts, with activations from the posterior.
    H, n_draws = posterior_draws * exposed[:m], posterior_draws.shape[0]
    spread = Spread(W, H.mean(axis=0))

    def redraw(r: int) -> tuple[float, float]:
        rng = np.random.default_rng([seed, n_replicates + r])
        return spread.of(entries, H[r]), spread.of(draws.draw(H[r], rng), H[r])

    pairs = np.array(for_each(redraw, range(n_draws), n_jobs, None))
    replicates[:n_draws, -1], observed[-1] = pairs[:, 1], pairs[:, 0].mean()
    p_values[-1] = (1.0 + (pairs[:, 1] >= pairs[:, 0]).sum()) / (1.0 + n_draws)

    F = model.n_features
    moments, expected, residuals = np.full((2, F), np.nan), np.full((2, F), np.nan), np.zeros(F)
    moments[:, columns] = feature_moments(entries)
    expected[:, columns] = expected_feature_moments(model, W, exposed[:m, 0])
    some = H[:: max(n_draws // 8, 1)]  # the mean needs no more
    residuals[columns] = spread.per_feature(entries, some)
    largest_at = (0, 0)
    if entries.nnz:
        at = int(entries.data.argmax())
        row = int(np.searchsorted(entries.indptr, at, side="right")) - 1
        largest_at = int(subset.rows[row]), int(columns[entries.indices[at]])
    return PredictiveCheck(
        statistics=tuple(STATISTICS),
        observed=observed,
        replicates=replicates,
        p_values=p_values,
        n_samples=counts.shape[0],
        n_checked=n,
        n_entries_checked=m,
        totals=np.sort(totals),
        total_bands=np.quantile([one[1] for one in found], [_BAND[0], 0.5, _BAND[1]], axis=0),
        feature_moments=moments,
        expected_moments=expected,
        residuals=residuals,
        largest_at=largest_at,
        alpha_learned=alpha_learned,
        exposures="total" if totals_are_exposures else "none" if exposure is None else "given",
        feature_names=feature_names,
    )


def _draw_totals(ax: Any, found: PredictiveCheck) -> None:
    low, middle, high = found.total_bands
    share = (np.arange(found.totals.size) + 0.5) / found.totals.size
    ax.fill_betweenx(share, low, high, color=QUIET, alpha=0.35, lw=0)
    ax.plot(middle, share, color=QUIET, lw=1.2)
    flagged = found._direction("cv_total") != 0
    ax.plot(found.totals, share, color=FLAGGED if flagged else COLOUR, lw=1.6)
    if min(found.totals[0], low[0]) > 0 and found.totals[-1] > 20 * found.totals[0]:
        ax.set_xscale("log")
    tidy(ax, "total of a sample", "share of samples below", "totals")
    _legend(ax, "model, 90 %", FLAGGED if flagged else COLOUR, right=True)


def _draw_moments(ax: Any, found: PredictiveCheck) -> None:
    drawn = found.feature_moments[0] > 0
    size = 7 if drawn.sum() < 300 else 4
    expected = np.where(found.expected_moments > 0, found.expected_moments, np.nan)
    ax.plot(*expected[:, drawn], ".", color=QUIET, ms=size, alpha=0.6, mew=0)
    flagged = found._direction("dispersion") != 0
    colour = FLAGGED if flagged else COLOUR
    ax.plot(*found.feature_moments[:, drawn], ".", color=colour, ms=size, alpha=0.6, mew=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ends = np.array(ax.get_xlim())
    ax.plot(ends, ends, color=INK, lw=0.8, ls=(0, (4, 3)))
    ax.annotate(
        "Poisson",
        (ends[1], ends[1]),
        (-2, -26),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=8,
        color=INK,
    )
    ax.set_xlim(ends)
    tidy(ax, "mean count", "variance", "features")
    _legend(ax, "model", colour)


def _draw_statistics(ax: Any, found: PredictiveCheck) -> None:
    """Draw every statistic, scaled so that 90 % of the draws lie between -1 and 1."""
    low, middle, high = found.bands()
    half = np.maximum((high - low) / 2.0, np.finfo(float).tiny)
    values = np.clip((found.observed - middle) / half, -6.0, 6.0)
    ax.axvspan(-1.0, 1.0, color=QUIET, alpha=0.35, lw=0)
    for i, name in enumerate(found.statistics):
        flagged = found._direction(name) != 0
        marker = "o" if abs(values[i]) < 6.0 else (">" if values[i] > 0 else "<")
        ax.plot(values[i], i, marker, color=FLAGGED if flagged else COLOUR, ms=6, clip_on=False)
    ax.set_yticks(range(len(values)), [STATISTICS[name] for name in found.statistics])
    ax.tick_params(labelsize=8)
    ax.set_xlim(-6.3, 6.3)
    ax.invert_yaxis()
    tidy(ax, "observed, in half-widths of the band", "", "all statistics")


def _legend(ax: Any, model: str, colour: str, *, right: bool = False) -> None:
    """Name the colours: above on the left, or below on the right, where no curve is."""
    x, side, heights = (0.98, "right", (0.17, 0.09)) if right else (0.03, "left", (0.97, 0.89))
    for y, text, shade in zip(heights, ("data", model), (colour, QUIET), strict=True):
        ax.text(
            x, y, text, color=shade, transform=ax.transAxes, ha=side, va="top", fontsize=9,
            weight="bold",
        )  # fmt: skip
