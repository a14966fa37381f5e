"""Pictures of a fit: how it converged, what its components are worth, and how many are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gapmf.analysis.pictures import (
    COLOUR,
    FLAGGED,
    INK,
    QUIET,
    bare,
    beside,
    get_axes,
    write_number,
)
from gapmf.errors import InvalidInputError
from gapmf.plot.arrange import component_colours, share_order

if TYPE_CHECKING:
    from gapmf.estimator import GammaPoissonMF
    from gapmf.ranks.report import RankReport
    from gapmf.selection import RankSelection

N_NAMED = 20  # components in a legend, the largest
OBJECTIVES = {
    "log_likelihood": "log-likelihood (nats)",
    "bound": "lower bound of the log-likelihood (nats)",
    "log_joint_likelihood": "joint log-likelihood (nats)",
}


def convergence(est: GammaPoissonMF, *, show: str | None = None, ax: Any = None) -> Any:
    """Draw how a fit converged.

    Parameters
    ----------
    est : GammaPoissonMF
        The fitted estimator.
    show : {"log_likelihood", "bound", "log_joint_likelihood", "norms"}, default=None
        The entry of `history_` to draw. By default, it is what the fit knew: the log-likelihood
        or what it maximised instead, else the norms of the components. Use `score_every` to
        compute the log-likelihood during a Monte Carlo fit.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    gapmf.write_report : All pictures of a fit in one file.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot
    >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
    >>> plot.convergence(est).get_xlabel()
    'iteration'
    """
    check_is_fitted(est, "model_")
    history = est.history_
    known = [name for name in OBJECTIVES if np.isfinite(history.get(name, np.nan)).any()]
    known.append("norms")
    if show is None:
        show = known[0]
    if show not in known:
        raise InvalidInputError(
            f"show must be one of {', '.join(map(repr, known))}, which the history has, but is "
            f"{show!r}"
        )
    ax = get_axes(ax)
    x = np.arange(1, est.n_iter_ + 1)
    if show == "norms":
        colours = component_colours(est.model_)
        order = share_order(est.model_)
        lines = {
            k: ax.plot(x, history["norms"][:, k], color=colours[k], lw=1.2)[0] for k in order[::-1]
        }
        if order.size > 1:
            named = order[:N_NAMED]
            ax.legend(
                [lines[k] for k in named], [str(k) for k in named], title="component",
                frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8,
                ncols=1 + (named.size > 10),
            )  # fmt: skip
        ax.set_ylabel("norm of each component")
    else:
        values = history[show]
        there = np.isfinite(values)
        ax.plot(x[there], values[there], color=COLOUR, lw=1.4, marker="." if x.size < 50 else None)
        ax.set_ylabel(OBJECTIVES[show])
        ax.yaxis.set_major_formatter(lambda value, _: write_number(value))
    ax.set_xlabel("iteration")
    bare(ax)
    return ax


def rank_report(report: RankReport, *, ax: Any = None) -> Any:
    """Draw what removing each component costs, and which are kept.

    Parameters
    ----------
    report : RankReport
        The result of ``est.rank_report(X)``.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    gapmf.GammaPoissonMF.rank_report : The report.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=10, n_samples=200, random_state=0)
    >>> est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
    >>> len(plot.rank_report(est.rank_report(X)).get_yticks())
    2
    """
    order = np.argsort(-report.share, kind="stable")
    ax = get_axes(ax, height=max(2.0, 0.8 + 0.26 * order.size))
    places = np.arange(order.size)
    cost = np.where(np.isfinite(report.cost), report.cost, 0.0)[order]
    colours = np.where(report.keep[order], COLOUR, QUIET)
    ax.barh(places, cost, xerr=report.cost_error[order], color=colours, ecolor=INK, height=0.7)
    for i, k in enumerate(order):
        if report.bound[k]:
            beside(ax, "at most", (cost[i] + report.cost_error[k], i), (4, 0), QUIET)
    labels = report.labels or ("",) * order.size
    names = [
        f"{k}: {labels[k]}".rstrip(": ") + ("" if report.keep[k] else " (not kept)") for k in order
    ]
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.axvline(0.0, color=INK, lw=0.8)
    if (cost > 0).any() and cost.max() > 30 * max(np.median(np.abs(cost)), 1.0):
        ax.set_xscale("symlog", linthresh=max(float(np.median(np.abs(cost))), 1.0))
    ax.margins(x=0.14)  # for what is written beside the bars
    ax.set_xlabel(f"loss in log-likelihood (nats)\nof {_criterion(report.criterion)}")
    ax.set_title(f"{report.rank} of {order.size} components are kept", fontsize=10, loc="left")
    bare(ax)
    return ax


def _criterion(name: str) -> str:
    return "the fitted counts" if name == "BIC" else name


def rank_selection(selection: RankSelection, *, ax: Any = None) -> Any:
    """Draw numbers of components against the criterion that compares them.

    Parameters
    ----------
    selection : RankSelection
        The result of ``gapmf.select_rank(X, ranks)``.
    ax : matplotlib Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    gapmf.select_rank : The comparison.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, plot, select_rank
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=10, n_samples=200, random_state=0)
    >>> est = GammaPoissonMF(algorithm="exact", random_state=0)
    >>> plot.rank_selection(select_rank(X, [1, 2, 3], estimator=est)).get_xlabel()
    'number of components'
    """
    ax = get_axes(ax)
    name = selection.criterion
    name = "BIC" if name == "BIC" else f"log-likelihood of {name}"
    ranks, errors = selection.ranks, selection.error
    below = selection.score - selection.score.max()
    ax.axhline(0.0, color=QUIET, lw=0.8, ls=(0, (4, 3)))
    ax.errorbar(
        ranks, below, yerr=errors, fmt="o-", ms=6, color=COLOUR, ecolor=INK, capsize=4, lw=1.3
    )
    for i, rank in enumerate(ranks):
        error = f" ± {errors[i]:,.0f}" if errors[i] else ""
        text = f"{write_number(below[i])}{error}" if below[i] else "best"
        # Below the best ones; else to the right, on the side that the line leaves free.
        falls = i + 1 == len(ranks) or below[i + 1] < below[i]
        near = below[i] >= 0.1 * below.min()
        beside(ax, text, (rank, below[i]), (0, -13) if near else (7, 3 if falls else -12), QUIET)
        if rank == selection.n_components:
            ax.plot(rank, below[i], "o", ms=14, mfc="none", mec=FLAGGED, mew=2)
            beside(ax, f"chosen: {rank}", (rank, below[i]), (0, 13), FLAGGED)
    if ranks[-1] >= 8 * ranks[0]:
        ax.set_xscale("log")
    ax.set_xticks(ranks, [str(rank) for rank in ranks])
    ax.set_xticks([], minor=True)
    ax.margins(0.15, 0.2)
    ax.set_xlabel("number of components", color=INK)
    ax.set_ylabel(f"{name}:\ndifference from the best ± standard error (nats)", color=INK)
    ax.yaxis.set_major_formatter(lambda value, _: write_number(value))
    bare(ax)
    return ax
