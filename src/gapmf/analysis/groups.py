"""How the shares of components differ between groups of samples, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.analysis.pictures import COLOUR, FLAGGED, INK, QUIET, check_axes, tidy
from gapmf.counts import is_anndata
from gapmf.errors import InvalidInputError
from gapmf.types import Array, Index
from gapmf.validation import check_number

# Posterior variances are averaged over samples, so that some samples are enough: so many of all
# groups together, and of each group at least.
N_POSTERIOR, LEAST_POSTERIOR = 256, 8
_MAX_ROWS = 60  # in the printed form
_MAX_DOTS = 6  # groups that a picture shows as dots; with more, it shows colours


@dataclass(frozen=True, repr=False, eq=False)
class GroupComparison:
    """Mean proportions of the components in groups of samples, and their differences.

    The intervals are for the population that the samples of a group come from. Their width has two
    parts: samples of a group differ from each other, and the proportions of each sample are
    uncertain given its counts (`posterior_error`). The components are taken as known.

    Attributes
    ----------
    groups : tuple of str
        Names of the groups.
    n_samples : ndarray of int of shape (n_groups,)
        Numbers of samples with counts.
    share : ndarray of shape (n_groups, n_components)
        Mean proportions over the samples of a group, as `GammaPoissonMF.proportions` gives them.
        Each sample has the same weight.
    interval : ndarray of shape (n_groups, n_components, 2)
        Confidence interval of the mean proportion in the population of the group; nan for a group
        of one sample.
    difference : ndarray of shape (n_groups, n_components)
        Mean proportion in the group minus that of all samples of the other groups.
    difference_interval : ndarray of shape (n_groups, n_components, 2)
        Confidence interval of the difference between the populations.
    p_values : ndarray of shape (n_groups, n_components)
        Two-sided p-values of the differences, by Welch's t-test.
    differs : ndarray of bool of shape (n_groups, n_components)
        Where p-values are significant after Holm's correction for the number of comparisons.
    error : ndarray of shape (n_groups, n_components)
        Standard errors of `share`.
    posterior_error : ndarray of shape (n_groups, n_components)
        The part of them that comes from the counts of these samples: what would remain if the
        samples were the whole population.
    level : float
        Level of the intervals.
    n_without_counts : int
        Number of samples without counts, which are left out.
    labels : tuple of str
        The most distinctive features of each component.
    """

    groups: tuple[str, ...]
    n_samples: Index
    share: Array
    interval: Array
    difference: Array
    difference_interval: Array
    p_values: Array
    differs: NDArray[np.bool_]
    error: Array
    posterior_error: Array
    level: float
    n_without_counts: int
    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        G, K = self.share.shape
        return f"GroupComparison({G} groups, {K} components, {int(self.differs.sum())} differences)"

    def __str__(self) -> str:
        title = f"{self.level:.0%} interval"
        width = max(5, *(min(len(name), 24) for name in self.groups))
        lines = [
            f"component  {'group':<{width}} {'share':>7} {title:>17} {'difference':>11} "
            f"{title:>18} {'p':>8}    features"
        ]
        shown = self._shown()
        for k in self.order():
            rows = [g for g in range(len(self.groups)) if shown[g, k]]
            lines += [self._line(k, g, width, first=g == rows[0]) for g in rows]
        lines += ["", *(fill(text, 98, subsequent_indent="  ") for text in self._explain(shown))]
        return "\n".join(lines)

    def _shown(self) -> NDArray[np.bool_]:
        return np.asarray(self.differs | (self.share.size <= _MAX_ROWS))

    def _line(self, k: int, g: int, width: int, *, first: bool) -> str:
        low, high = self.interval[g, k]
        below, above = self.difference_interval[g, k]
        band = f"{low:.1%} to {high:.1%}" if np.isfinite(low) else "one sample"
        gap = f"{below:+.1%} to {above:+.1%}" if np.isfinite(below) else ""
        p = f"{self.p_values[g, k]:.2g}" if np.isfinite(below) else ""
        label = self.labels[k] if first and self.labels else ""
        return (
            f"{k if first else '':>9}  {self.groups[g][:24]:<{width}} {self.share[g, k]:>7.1%} "
            f"{band:>17} {self.difference[g, k]:>+11.1%} {gap:>18} {p:>8}"
            f"{' *' if self.differs[g, k] else '  '}  {label}"
        ).rstrip()

    def _explain(self, shown: NDArray[np.bool_]) -> list[str]:
        """Say in words what the columns are."""
        sizes = ", ".join(
            f"{n:,} of {name}" for name, n in zip(self.groups, self.n_samples, strict=True)
        )
        texts = [
            f"share: mean of the samples' expected shares of counts. Samples: {sizes}"
            + (
                f"; {self.n_without_counts:,} more without counts left out."
                if self.n_without_counts
                else "."
            ),
            "difference: from the samples of all other groups together.",
            "intervals: for the populations of the groups. They include how much samples differ "
            "from each other, and how uncertain the shares of each sample are.",
            f"*: significant at {1 - self.level:.2g} after Holm's correction for all comparisons.",
        ]
        if not shown.all():
            texts.append(f"Only the {int(shown.sum())} rows with a * of {shown.size} are shown.")
        return texts

    def order(self) -> Index:
        """Return the components by their mean share over groups, the largest first.

        Returns
        -------
        ndarray of int of shape (n_components,)
            Numbers of the components.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> X = [[4, 1], [1, 0], [3, 1], [0, 5]]
        >>> est = GammaPoissonMF(1, random_state=0).fit(X)
        >>> est.compare(X, ["a", "a", "b", "b"]).order()
        array([0])
        """
        return np.argsort(-self.share.mean(axis=0), kind="stable")

    def plot(self, ax: Any = None) -> Any:
        """Draw the mean shares of the groups with their intervals, one row per component.

        With more than six groups, differences are drawn as colours. Needs Matplotlib, which the
        extra "plot" installs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. By default, a new figure.

        Returns
        -------
        matplotlib Axes
            The axes; `ax.figure` is the figure.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> X = [[4, 1], [1, 0], [3, 1], [0, 5]]
        >>> est = GammaPoissonMF(1, random_state=0).fit(X)
        >>> est.compare(X, ["a", "a", "b", "b"]).plot().get_xlabel()
        'mean share of counts, with 95% intervals'
        """
        G, K = self.share.shape
        many = G > _MAX_DOTS
        height = 1.6 + K * (0.3 if many else 0.14 * G + 0.16)
        width = 3.5 + 0.5 * G if many else 7.0
        [ax] = check_axes(ax, 1, (width, min(height, 30.0)))
        order = self.order()
        names = [f"{k}: {self.labels[k]}" if self.labels else str(k) for k in order]
        (_draw_colours if many else _draw_dots)(ax, self, order)
        ax.set_yticks(range(K), names)
        ax.tick_params(labelsize=8)
        return ax


def _draw_dots(ax: Any, found: GroupComparison, order: Index) -> None:
    G, K = found.share.shape
    colours = (COLOUR, FLAGGED, "#4d9a6a", "#8a63b0", "#c99b2d", "#4a9fb5")
    for g in range(G):
        rows = np.arange(K) + (g - (G - 1) / 2) * min(0.7 / G, 0.2)
        x, band = found.share[g, order], found.interval[g, order]
        ax.hlines(rows, band[:, 0], band[:, 1], color=colours[g], lw=1.6)
        ax.plot(
            x,
            rows,
            "o",
            color=colours[g],
            ms=4.5,
            label=f"{found.groups[g]} ({found.n_samples[g]:,})",
        )
        for row, k in zip(rows, order, strict=True):
            if found.differs[g, k]:
                ends = found.interval[g, k, 1], row
                place = {"textcoords": "offset points", "va": "center", "color": colours[g]}
                ax.annotate("*", ends, (4, -2), **place)
    for row in range(1, K):
        ax.axhline(row - 0.5, color=QUIET, lw=0.3)
    right = np.nanmax([np.nanmax(found.interval, initial=0.0), found.share.max()])
    ax.set_xlim(0.0, 1.06 * right)
    ax.set_ylim(K - 0.5, -0.5)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    tidy(ax, f"mean share of counts, with {found.level:.0%} intervals", "", "")


def _draw_colours(ax: Any, found: GroupComparison, order: Index) -> None:
    values = found.difference[:, order].T
    most = float(np.abs(values).max()) or 1.0
    image = ax.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
    for g, row in zip(*np.nonzero(found.differs[:, order]), strict=True):
        ax.text(g, row, "*", color=INK, ha="center", va="center")
    names = [f"{name} ({n:,})" for name, n in zip(found.groups, found.n_samples, strict=True)]
    ax.set_xticks(range(len(names)), names, rotation=60, ha="right")
    bar = ax.figure.colorbar(image, ax=ax, format=lambda value, _: f"{value:+.0%}")
    bar.set_label("difference in share", color=INK)
    bar.ax.tick_params(labelsize=8)
    tidy(ax, "", "", "")


class Groups(NamedTuple):
    """Groups of samples."""

    names: tuple[str, ...]
    codes: Index  # (N,): the group of each sample


def check_groups(groups: Any, X: Any, n_samples: int) -> Groups:
    """Return the groups of samples from an array, a Series, or the name of a column of `X.obs`."""
    import pandas as pd

    if isinstance(groups, str):
        if not is_anndata(X):
            raise InvalidInputError(
                f"groups is the name {groups!r}, but X is no AnnData with a column of this name: "
                "give one group per sample"
            )
        if groups not in X.obs:
            listed = ", ".join(map(repr, X.obs.columns)) or "none"
            raise InvalidInputError(f"adata.obs has no column {groups!r}: its columns are {listed}")
        groups = X.obs[groups]
    own = getattr(X, "index", None)
    if isinstance(groups, pd.Series) and isinstance(own, pd.Index) and not groups.index.equals(own):
        raise InvalidInputError(
            "groups has another index than X: use groups.reindex(X.index), or groups.to_numpy() if "
            "its entries are in the order of the rows of X"
        )
    values = groups if isinstance(groups, (pd.Series, pd.Categorical)) else np.asarray(groups)
    if values.ndim != 1 or len(values) != n_samples:
        raise InvalidInputError(
            f"groups must have one entry per sample, {n_samples:,}, but has shape {values.shape}"
        )
    column = pd.Series(values).reset_index(drop=True)
    missing = column.isna()
    if missing.any():
        raise InvalidInputError(
            f"{int(missing.sum()):,} samples have no group, the first is sample "
            f"{int(missing.to_numpy().argmax())}: leave them out of X and groups, or give them a "
            "group of their own"
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.remove_unused_categories()
    else:
        column = (column if column.dtype.kind in "biuf" else column.astype(str)).astype("category")
    names = tuple(str(name) for name in column.cat.categories)
    if len(names) < 2:
        raise InvalidInputError(
            f"all samples are in the group {names[0]!r}: give at least two groups"
        )
    if len(names) > max(n_samples // 2, 2):
        raise InvalidInputError(
            f"groups has {len(names):,} different values for {n_samples:,} samples, so most groups "
            "have one sample: give groups that samples share"
        )
    return Groups(names, column.cat.codes.to_numpy(dtype=np.int64))


def check_level(level: Any) -> float:
    """Return the level of an interval, between 0 and 1."""
    level = check_number(level, "level", above=0.0)
    if level >= 1.0:
        raise InvalidInputError(f"level must be below 1, for example 0.95, but is {level:g}")
    return float(level)


def check_sizes(groups: Groups) -> None:
    """Refuse a group that is empty."""
    sizes = np.bincount(groups.codes, minlength=len(groups.names))
    if not sizes.all():
        raise InvalidInputError(
            f"group {groups.names[int(sizes.argmin())]!r} has no sample with counts: leave it out"
        )


def choose_for_posterior(groups: Groups, rng: np.random.Generator) -> Index:
    """Choose some samples of each group at random, whose posterior variances are computed."""
    n = max(N_POSTERIOR // len(groups.names), LEAST_POSTERIOR)
    order = rng.permutation(groups.codes.size)
    some = [order[groups.codes[order] == g][:n] for g in range(len(groups.names))]
    return np.sort(np.concatenate(some))


def compare_groups(
    shares: Array,
    variances: Array,
    groups: Groups,
    *,
    level: float = 0.95,
    n_without_counts: int = 0,
    labels: tuple[str, ...] = (),
) -> GroupComparison:
    """Compare mean shares (N, K) of samples by group.

    Their posterior variances (N, K) may be nan for some samples, but not for all of a group.
    """
    from scipy import stats

    G = len(groups.names)
    members = [groups.codes == g for g in range(G)]
    sizes = np.array([int(inside.sum()) for inside in members])
    own = [_moments(shares[inside], variances[inside]) for inside in members]
    rest = [_moments(shares[~inside], variances[~inside]) for inside in members]
    mean, error, inner, dof = (
        np.array([getattr(one, name) for one in own]) for name in _Moments._fields
    )
    other, other_error, _, other_dof = (
        np.array([getattr(one, name) for one in rest]) for name in _Moments._fields
    )
    difference, gap = mean - other, np.hypot(error, other_error)
    with np.errstate(divide="ignore", invalid="ignore"):  # shares that never vary, single samples
        welch = gap**4 / (error**4 / dof[:, None] + other_error**4 / other_dof[:, None])
        welch = np.where(gap > 0, welch, 1.0)
        p = 2.0 * stats.t.sf(np.abs(difference) / gap, welch)
    p = np.where((gap == 0) & (difference == 0), 1.0, p)
    tail = (1.0 + level) / 2.0
    half = stats.t.ppf(tail, np.maximum(dof, 1))[:, None] * error
    gap_half = stats.t.ppf(tail, welch) * gap
    return GroupComparison(
        groups=groups.names,
        n_samples=sizes,
        share=mean,
        interval=np.clip(np.stack([mean - half, mean + half], axis=-1), 0.0, 1.0),
        difference=difference,
        difference_interval=np.clip(
            np.stack([difference - gap_half, difference + gap_half], axis=-1), -1.0, 1.0
        ),
        p_values=p,
        differs=_holm(p, 1.0 - level),
        error=error,
        posterior_error=inner,
        level=level,
        n_without_counts=n_without_counts,
        labels=labels,
    )


class _Moments(NamedTuple):
    """Mean shares of some samples, their standard errors, and the degrees of freedom."""

    mean: Array
    error: Array  # between samples, and of the posteriors
    posterior_error: Array
    dof: int


def _moments(shares: Array, variances: Array) -> _Moments:
    """Return the mean, with variance (between samples + mean posterior variance) / N."""
    N = shares.shape[0]
    between = shares.var(axis=0, ddof=1) if N > 1 else np.full(shares.shape[1], np.nan)
    inner = np.nanmean(variances, axis=0) / N
    return _Moments(shares.mean(axis=0), np.sqrt(between / N + inner), np.sqrt(inner), N - 1)


def _holm(p_values: Array, size: float) -> NDArray[np.bool_]:
    """Return which p-values (G, K) are significant, by Holm's method.

    With two groups, both rows are the same comparisons. One component has share 1: it is none.
    """
    G, K = p_values.shape
    p = np.where(np.isnan(p_values), 1.0, p_values)
    if K == 1:
        return np.zeros((G, K), dtype=bool)
    flat = (p[:1] if G == 2 else p).ravel()
    order = np.argsort(flat, kind="stable")
    passed = np.logical_and.accumulate(flat[order] <= size / (flat.size - np.arange(flat.size)))
    found = np.zeros(flat.size, dtype=bool)
    found[order] = passed
    return np.broadcast_to(found.reshape(-1, K), (G, K)).copy()
