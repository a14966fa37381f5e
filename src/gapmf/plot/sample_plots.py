"""Pictures of samples: their proportions, and their activations with intervals."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmf.analysis.pictures import INK, bare, get_axes
from gapmf.counts import is_anndata
from gapmf.errors import InvalidInputError
from gapmf.likelihood.posterior import Posterior
from gapmf.plot.arrange import (
    OTHERS,
    PALETTE,
    component_colours,
    group_names,
    has_group,
    obs_groups,
    structure_order,
)
from gapmf.plot.component_plots import _plain
from gapmf.types import Array
from gapmf.validation import as_float, check_entries, check_whole

if TYPE_CHECKING:
    from gapmf.estimator import GammaPoissonMF

GAP = 0.012  # of the width, between groups


def structure(
    source: Any,
    X: Any = None,
    *,
    groupby: Any = None,
    key: str = "gap",
    max_samples: int = 1000,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw the proportions of samples: a thin column each, with a colour per component.

    Samples are ordered by their largest component, group by group.

    Parameters
    ----------
    source : GammaPoissonMF, AnnData or array-like of shape (n_samples, n_components)
        A fitted estimator, whose proportions of `X` are computed; an AnnData with the results of
        `fit_anndata`; or proportions.
    X : array-like, sparse matrix or data frame, default=None
        Counts, if `source` is an estimator.
    groupby : str or sequence of length n_samples, default=None
        The group of each sample. For an AnnData, the name of a column of `obs`: groups then have
        the order of its categories, and the colours that scanpy has stored in `uns`.
    key : str, default="gap"
        The `key_added` of `fit_anndata`.
    max_samples : int, default=1000
        Number of samples to draw at most: of more, every second, third etc. in their order.
    legend : bool, default=True
        Whether to name the components.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    gapmf.GammaPoissonMF.proportions : The numbers.
    activations : One sample, with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmf import plot
    >>> proportions = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    >>> ax = plot.structure(proportions, groupby=["a"] * 12 + ["b"] * 8)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['a', 'b']
    """
    proportions = _proportions(source, X, key)
    N, K = proportions.shape
    groups, colours = _groups(source, groupby, N)
    most = check_whole(max_samples, "max_samples")
    names = [None] if groups is None else group_names(groups)
    known = [] if groups is None else has_group(groups)
    written = [] if groups is None else [len(str(name)) for name in names]
    crowded = sum(written) > 60  # then labels are turned, and need space below
    ax = get_axes(ax, 8.0, 2.6 + (0.045 * max(written) if crowded else 0.0))
    palette = component_palette(proportions)
    stack = np.argsort(-proportions.mean(axis=0), kind="stable")
    left, middles = 0.0, []
    for name in names:
        rows = np.arange(N)
        if groups is not None:
            rows = rows[[i and g == name for g, i in zip(groups, known, strict=True)]]
        if not rows.size:
            continue
        rows = rows[structure_order(proportions[rows])]
        shown = rows[np.linspace(0, rows.size - 1, max(min(rows.size, most * rows.size // N), 1))
                     .astype(int)]  # fmt: skip
        width = rows.size / N
        edges = left + np.linspace(0.0, width, shown.size + 1)
        upper = np.zeros(shown.size)
        for k in stack:
            lower, upper = upper, upper + proportions[shown, k]
            ax.stairs(upper, edges, baseline=lower, fill=True, color=palette[k], lw=0)
        middles.append(left + width / 2)
        if groups is not None and str(name) in colours:
            ax.plot([left, left + width], [-0.03] * 2, lw=5, solid_capstyle="butt",
                    color=colours[str(name)], clip_on=False)  # fmt: skip
        left += width + GAP
    labels = [] if groups is None else [_plain(str(name)) for name in names]
    gaps = np.diff(middles)
    lengths = [(len(a) + len(b)) / 2 for a, b in pairwise(labels)]
    turned = any(0.014 * n > gap for n, gap in zip(lengths, gaps, strict=False))
    style: dict[str, Any] = {"rotation": 30, "ha": "right"} if turned else {}
    ax.set_xticks(middles[: len(labels)], labels, **style)
    ax.tick_params(axis="x", length=0, pad=8)
    ax.set_xlim(0.0, left - GAP)
    ax.set_ylim(0.0, 1.0)
    ax.set_ylabel("proportion")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    if legend:
        handles = [ax.stairs([0], [0, 0], fill=True, color=palette[k]) for k in stack[:20]]
        ax.legend(handles, [str(k) for k in stack[:20]], title="component", frameon=False,
                  loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8,
                  ncols=1 + (min(K, 20) > 10))  # fmt: skip
    return ax


def component_palette(proportions: Array) -> list[str]:
    """Return a colour per component: one each for the largest, and grey for the others."""
    colours = [OTHERS] * proportions.shape[1]
    order = np.argsort(-proportions.mean(axis=0), kind="stable")
    for place, k in enumerate(order[: len(PALETTE)]):
        colours[k] = PALETTE[place]
    return colours


def _proportions(source: Any, X: Any, key: str) -> Array:
    """Return proportions (N, K), from wherever they are."""
    if is_anndata(source):
        name = f"X_{key}"
        if name not in source.obsm:
            raise InvalidInputError(
                f"the AnnData has no proportions in obsm[{name!r}]: use gapmf.fit_anndata(adata, "
                "est) first, or the key_added that was given to it"
            )
        return np.asarray(source.obsm[name], dtype=float)
    if hasattr(source, "proportions"):
        if isinstance(source, Posterior):
            return source.proportions
        if X is None:
            raise InvalidInputError("X is missing: give the counts whose proportions are drawn")
        return np.asarray(source.proportions(X))
    values = as_float(source, "source", "proportions, samples × components")
    check_entries(values, "source")
    if values.ndim != 2 or not np.allclose(values.sum(axis=1), 1.0, atol=1e-6):
        raise InvalidInputError(
            "source must be proportions, samples × components, whose rows sum to 1: "
            "est.proportions(X)"
        )
    return values


def _groups(source: Any, groupby: Any, N: int) -> tuple[Any, dict[str, str]]:
    if groupby is None:
        return None, {}
    if isinstance(groupby, str):
        if not is_anndata(source):
            raise InvalidInputError(
                f"groupby is {groupby!r}, a column of `obs`, but there is no AnnData: give one "
                "group per sample"
            )
        return obs_groups(source, groupby)
    if len(groupby) != N:
        raise InvalidInputError(f"groupby has {len(groupby)} entries, but there are {N} samples")
    return groupby, {}


def activations(
    est: GammaPoissonMF,
    X: Any,
    sample: int = 0,
    *,
    exposure: Any = None,
    name: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the activations of one sample: posterior means with 90 % intervals.

    Each is multiplied by its component's norm, and by the sample's exposure. It is then the number
    of counts that the component is expected to contribute, which can be compared between
    components.

    Parameters
    ----------
    est : GammaPoissonMF
        The fitted estimator.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Counts.
    sample : int, default=0
        Row of X to draw.
    exposure : array-like of shape (n_samples,) or "total", default=None
        Exposures of the samples, as in `gapmf.GammaPoissonMF.posterior`.
    name : str, default=None
        Name of the sample, for the title; by default its number.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    gapmf.GammaPoissonMF.posterior : The numbers.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot
    >>> X = [[9, 1], [1, 8], [7, 1], [2, 9]]
    >>> est = GammaPoissonMF(2, random_state=0).fit(X)
    >>> plot.activations(est, X, 1).get_title("left")
    'sample 1'
    """
    counts, _, observation = est._check_observed_samples(X, exposure, None)
    sample = check_whole(sample, "sample", least=0)
    if sample >= counts.shape[0]:
        raise InvalidInputError(f"sample is {sample}, but X has {counts.shape[0]} rows")
    with warnings.catch_warnings():  # the names have been checked
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        own = None if observation is None else observation.exposure[[sample]]
        found = est.posterior(counts[[sample]], exposure=own)
    norms = est.model_.column_norms * (1.0 if own is None else own)
    mean, (low, high) = found.mean[0] * norms, found.quantiles[:, 0] * norms
    ax = get_axes(ax)
    places = np.arange(mean.size)
    error = np.maximum([mean - low, high - mean], 0.0)
    ax.errorbar(places, mean, yerr=error, fmt="none", ecolor=INK, capsize=3, lw=1.2)
    ax.scatter(places, mean, s=40, c=component_colours(est.model_), zorder=3)
    if mean.size <= 40:
        ax.set_xticks(places)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("component")
    ax.set_ylabel("expected counts, with 90 % intervals")
    ax.set_title(_plain(f"sample {sample}" if name is None else name), fontsize=10, loc="left")
    bare(ax)
    return ax
