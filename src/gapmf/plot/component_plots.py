"""Pictures of components: their features, their weights, and which of them are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gapmf.analysis.pictures import COLOUR, INK, QUIET, bare, beside, get_axes, get_panels
from gapmf.errors import InvalidInputError
from gapmf.plot.arrange import (
    Fit,
    component_colours,
    fit_of,
    parse_image,
    share_order,
    similarity_order,
)
from gapmf.plot.arrange import similarity as overlap_of
from gapmf.ranks.features import (
    distinctiveness,
    feature_weights,
    frequency_ratios,
    order_features,
    visible_features,
)
from gapmf.validation import check_whole

LONGEST = 16  # letters of a name in a panel; the weight of the feature is beside it


def components(
    est: Any,
    *,
    n_features: int = 8,
    image: tuple[int, int] | str | None = None,
    which: Sequence[int] | None = None,
    n_columns: int = 4,
    key: str = "gap",
    axes: Any = None,
) -> Any:
    """Draw components: one panel each, with distinctive features, or as an image.

    Parameters
    ----------
    est : GammaPoissonMF or AnnData
        The fitted estimator, or an AnnData with the results of `fit_anndata`.
    n_features : int, default=8
        Number of features per component, the most distinctive first.
    image : (int, int) or str, default=None
        Height and width, if the features are the pixels of an image, row by row; "square" takes
        the root of their number.
    which : sequence of int, default=None
        The components to draw, in this order. By default, those with the largest shares, 24 at
        most.
    n_columns : int, default=4
        Number of panels side by side in a new figure.
    key : str, default="gap"
        The `key_added` of `fit_anndata`.
    axes : array of matplotlib Axes, default=None
        Where to draw: one per component; by default in a new figure.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        One per component.

    See Also
    --------
    gapmf.GammaPoissonMF.top_features : The features as text.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot
    >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
    >>> plot.components(est)[0].get_title("left")
    '0: 100.0% of the counts'
    """
    fit = fit_of(est, key)
    shape = parse_image(image, fit.model.n_features)
    some = _components(fit, which)
    n = check_whole(n_features, "n_features")
    height = 1.9 if shape else 0.5 + 0.24 * n
    panels = get_panels(axes, len(some), n_columns, 1.7 if shape else 2.0, height)
    colours, weights = component_colours(fit.model), feature_weights(fit.model)
    top = None if shape else order_features(fit.model, fit.feature_counts, n=n)
    widest = 0.0 if top is None else max(float(weights[top[:, k], k].max()) for k in some)
    for ax, k in zip(panels, some, strict=True):
        share = f"{fit.model.shares[k]:.1%}"
        if top is None:
            ax.imshow(weights[:, k].reshape(shape), cmap="magma", interpolation="nearest")
            ax.set_title(f"{k}: {share}", fontsize=9)
        else:
            best = top[visible_features(weights[:, k])[top[:, k]], k]
            _draw_words(ax, [str(fit.names[f]) for f in best], weights[best, k], widest, colours[k])
            ax.set_ylim(n - 0.7, -0.85)
            title = f"{k}: {share} of the counts"
            ax.set_title(title, fontsize=9.5, color=colours[k], loc="left")
        ax.set_axis_off()
    return np.array(panels, dtype=object)


def _draw_words(ax: Any, words: list[str], weights: Any, widest: float, colour: str) -> None:
    """Write words above bars as long as their weights."""
    places = np.arange(len(words))
    ax.barh(places, weights, height=0.16, color=colour, align="edge")
    for y, word, weight in zip(places, words, weights, strict=True):
        text = word if len(word) <= LONGEST else f"{word[:8]}…{word[9 - LONGEST :]}"
        ax.text(0.0, y - 0.1, _plain(text), va="bottom", fontsize=9.5, color=INK)
        ax.text(widest, y - 0.1, f"{weight:.1%}", va="bottom", ha="right", fontsize=8, color=QUIET)
    ax.set_xlim(0.0, widest or 1.0)


def heatmap(
    est: Any,
    *,
    n_features: int = 4,
    which: Sequence[int] | None = None,
    key: str = "gap",
    ax: Any = None,
) -> Any:
    """Draw the distinctive features of all components, and how frequent they are in each.

    The colour is the base-2 logarithm of the ratio of a feature's frequency in a component to that
    in the others together: 1 means twice as frequent. What is not more frequent is white.

    Parameters
    ----------
    est : GammaPoissonMF or AnnData
        The fitted estimator, or an AnnData with the results of `fit_anndata`.
    n_features : int, default=4
        Number of features per component, the most distinctive first.
    which : sequence of int, default=None
        The components to draw, in this order. By default, those with the largest shares, 24 at
        most.
    key : str, default="gap"
        The `key_added` of `fit_anndata`.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    volcano : All features of one component.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot
    >>> X = [[9, 1, 0], [1, 0, 8], [7, 1, 0], [0, 2, 9]]
    >>> est = GammaPoissonMF(2, random_state=0).fit(X)
    >>> plot.heatmap(est, n_features=1).images[0].get_array().shape
    (2, 2)
    """
    fit = fit_of(est, key)
    some = _components(fit, which)
    n = check_whole(n_features, "n_features")
    top = order_features(fit.model, fit.feature_counts, n=n)
    visible = visible_features(fit.model.W)
    rows = list(dict.fromkeys(int(f) for k in some for f in top[:, k] if visible[f, k]))
    ratios = frequency_ratios(fit.model, fit.feature_counts, np.array(rows, dtype=np.int64))
    values = np.log2(ratios[:, some])
    ax = get_axes(ax, 2.2 + 0.3 * len(some), 1.0 + 0.2 * len(rows))
    limit = float(np.clip(values.max(initial=0.0), 1.0, 6.0))
    image = ax.imshow(values, cmap="Blues", vmin=0.0, vmax=limit, aspect="auto")
    ax.set_xticks(range(len(some)), [str(k) for k in some])
    ax.set_yticks(range(len(rows)), [_plain(str(fit.names[f])) for f in rows], fontsize=8)
    ax.set_xlabel("component")
    label = "log₂ of the frequency, over that in the others"
    extend = "max" if values.max(initial=0.0) > limit else "neither"
    ax.figure.colorbar(image, ax=ax, label=label, extend=extend)
    return ax


def volcano(
    est: Any, component: int, *, n_labels: int = 10, key: str = "gap", ax: Any = None
) -> Any:
    """Draw all features of a component: how much more frequent they are, and how clearly.

    Across is the base-2 logarithm of the ratio of a feature's frequency in the component to that
    in the others together. Up is the logarithm of this ratio in standard errors, which is the order
    of `top_features`.

    Parameters
    ----------
    est : GammaPoissonMF or AnnData
        The fitted estimator, or an AnnData with the results of `fit_anndata`.
    component : int
        Number of the component.
    n_labels : int, default=10
        Number of features to name, the most distinctive first.
    key : str, default="gap"
        The `key_added` of `fit_anndata`.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    heatmap : Some features of all components.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot
    >>> X = [[9, 1, 0], [1, 0, 8], [7, 1, 0], [0, 2, 9]]
    >>> est = GammaPoissonMF(2, random_state=0).fit(X)
    >>> plot.volcano(est, 0).get_title("left")
    'component 0'
    """
    fit = fit_of(est, key)
    (k,) = _components(fit, [component])
    n = check_whole(n_labels, "n_labels", least=0)
    across = np.log2(frequency_ratios(fit.model, fit.feature_counts)[:, k])
    up = np.abs(distinctiveness(fit.model, fit.feature_counts)[:, k])
    here = fit.model.W[:, k] > 0
    ax = get_axes(ax)
    clear = here & (up >= 1.0)
    ax.scatter(across[here & ~clear], up[here & ~clear], s=8, color=QUIET, alpha=0.5, lw=0)
    more = clear & (across > 0)
    for some, colour in ((more, COLOUR), (clear & ~more, INK)):
        ax.scatter(across[some], up[some], s=14, color=colour, alpha=0.7, lw=0)
    first = order_features(fit.model, fit.feature_counts, n=max(n, 1))[:n, k]
    highest, widest = float(up.max(initial=1.0)), float(np.ptp(across)) or 1.0
    written: list[int] = []
    for f in first[more[first]]:
        if any(
            abs(up[f] - up[g]) < 0.045 * highest and abs(across[f] - across[g]) < 0.2 * widest
            for g in written
        ):
            continue  # it would be on another one
        written.append(f)
        beside(ax, _plain(str(fit.names[f])), (across[f], up[f]), (5, 0), INK)
    ax.axvline(0.0, color=QUIET, lw=0.8)
    ax.margins(0.12, 0.06)
    ax.set_xlabel("log₂ of the frequency, over that in the other components")
    ax.set_ylabel("standard errors")
    ax.set_title(f"component {k}", fontsize=10, loc="left")
    bare(ax)
    return ax


def similarity(est: Any, *, key: str = "gap", ax: Any = None) -> Any:
    """Draw which components are alike, with similar ones beside each other.

    The colour is the Bhattacharyya coefficient Σ_f √(p_f q_f) of their distributions of features:
    1 if they are equal, and 0 if they have no feature in common.

    Parameters
    ----------
    est : GammaPoissonMF or AnnData
        The fitted estimator, or an AnnData with the results of `fit_anndata`.
    key : str, default="gap"
        The `key_added` of `fit_anndata`.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    gapmf.GammaPoissonMF.stability : The same measure, between repeated fits.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot
    >>> est = GammaPoissonMF(2, random_state=0).fit([[9, 1], [1, 8], [7, 1], [2, 9]])
    >>> plot.similarity(est).images[0].get_array().shape
    (2, 2)
    """
    fit = fit_of(est, key)
    overlap = overlap_of(fit.model)
    order = similarity_order(overlap)
    K = order.size
    size = float(np.clip(1.6 + 0.22 * K, 3.2, 9.0))
    ax = get_axes(ax, size + 0.8, size)
    image = ax.imshow(overlap[np.ix_(order, order)], cmap="Blues", vmin=0.0, vmax=1.0)
    if K <= 40:
        labels = [str(k) for k in order]
        ax.set_xticks(range(K), labels, fontsize=8)
        ax.set_yticks(range(K), labels, fontsize=8)
    ax.set_xlabel("component")
    ax.figure.colorbar(image, ax=ax, label="overlap of the features", shrink=0.8)
    return ax


def _components(fit: Fit, which: Sequence[int] | None, most: int = 24) -> list[int]:
    """Return the components to draw, checked."""
    K = fit.model.n_components
    if which is None:
        return [int(k) for k in share_order(fit.model)[:most]]
    some = [check_whole(k, "a component", least=0) for k in which]
    if not some or max(some) >= K:
        raise InvalidInputError(
            f"components are numbered from 0 to {K - 1}, but {which!r} were asked for"
        )
    return some


def _plain(text: str) -> str:
    """Keep Matplotlib from reading a name with two dollars as mathematics."""
    return text.replace("$", r"\$")
