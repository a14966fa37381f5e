"""Moves from one maximum of the likelihood to a better one nearby."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np

from gapmf.em.exact_moments import Fit
from gapmf.em.expectation import ExactExpectation
from gapmf.em.maximum import fit_maximum
from gapmf.em.record import History
from gapmf.em.start import from_shares, shares_of
from gapmf.errors import TooCostlyError
from gapmf.model import GaP

_SEED = 0.02  # the share of one feature from which a column is grown


def improve(expect: ExactExpectation, fit: Fit, *, max_iter: int, history: History) -> Fit:
    """Exchange, level and regrow columns while it helps; the history ends with what is kept.

    max_iter bounds the iterations of all climbs of the whole model together, which are in the
    history; those with a column less, or with one α for all, are not.
    """
    last = len(history) + max_iter
    helped = fit.model.n_components > 1 and expect.n_tokens > 0
    moves: list[Move] = [*_exchanges(fit.model), _regrown]
    if expect.learn_alpha:  # α moves along with W, so there is nothing to exchange
        moves = [_levelled, _regrown] if expect.learn_alpha == "component" else [_regrown]
    came_by: Move | None = None
    while helped:
        helped = False
        for make in moves:
            if make is came_by and make is not _regrown:
                continue  # the same again would only lead back
            room = last - len(history) - 1
            if room < 1 or history.stopped or not fit.converged:
                break
            value = fit.expectation.log_likelihood
            try:
                other = fit_maximum(
                    expect,
                    make(expect, fit.model, room),
                    max_iter=room,
                    history=history,
                    warm_up=0,
                    beat=value,
                )
            except TooCostlyError:
                continue  # it leads to an α whose E-steps cost too much: the fit stays
            gain = other.expectation.log_likelihood - value
            if other.converged and gain > 1e-6:
                fit, helped, came_by = other, True, make
                break
    if history.model is not fit.model and not history.stopped:
        history.add(fit.model, fit.expectation.log_likelihood)
    return fit


Move = Callable[[ExactExpectation, GaP, int], GaP]


def _exchanges(model: GaP) -> list[Move]:
    """Exchanges of the roles of two columns, for every pair with unequal α.

    With unequal α the likelihood knows which column is which, and every assignment of α to the
    columns' directions is a basin of its own.
    """
    pairs = combinations(range(model.n_components), 2)
    return [partial(_exchanged, pair=pair) for pair in pairs if np.ptp(model.alpha[list(pair)]) > 0]


def _exchanged(expect: ExactExpectation, model: GaP, room: int, *, pair: tuple[int, int]) -> GaP:
    """The model with the shares of two columns exchanged."""
    mean = expect.mean_counts
    shares = np.where(mean[:, None] > 0, shares_of(model, mean), 1.0)
    shares[:, pair] = shares[:, pair[::-1]]
    return GaP(from_shares(shares, mean, model.alpha, model.beta), model.alpha, model.beta)


def _levelled(expect: ExactExpectation, model: GaP, max_iter: int) -> GaP:
    """The best model with one α for all components that a climb from here finds.

    A column with a small α can be caught explaining a few samples only; where all have the same
    α none can, and what is best there is a start that the fit must not fall behind.
    """
    alpha = np.full_like(model.alpha, np.exp(model.shares @ np.log(model.alpha)))
    shares = shares_of(model, expect.mean_counts)
    shares = np.where(expect.mean_counts[:, None] > 0, shares, 1.0)
    level = GaP(from_shares(shares, expect.mean_counts, alpha, model.beta), alpha, model.beta)
    together = expect.learning("shared")
    return fit_maximum(together, level, max_iter=max_iter, history=History()).model


def _regrown(expect: ExactExpectation, model: GaP, max_iter: int) -> GaP:
    """The best model without the smallest column, and that column anew, almost empty.

    The spare column of an over-specified model has several places to be, maxima a few
    hundredths of a nat apart; grown from almost nothing where the score r_f is largest, it
    finds the best of them far more often than random starts do.
    """
    k = int(model.shares.argmin())
    others = np.delete(np.arange(model.n_components), k)
    mean, alpha, beta = expect.mean_counts, model.alpha, model.beta
    shares = shares_of(model, mean)
    left = np.where(shares[:, others].sum(axis=1, keepdims=True) > 0, shares[:, others], 1.0)
    smaller = GaP(from_shares(left, mean, alpha[others], beta[others]), alpha[others], beta[others])
    without = fit_maximum(expect, smaller, max_iter=max_iter, history=History(), warm_up=5).model
    grown = np.ones_like(shares)
    grown[mean > 0, k] = 0.0
    grown[np.ix_(mean > 0, others)] = shares_of(without, mean)[mean > 0]
    grown[int(expect.score(without)[0].argmax()), k] = _SEED
    alpha = alpha.copy()
    alpha[others] = without.alpha
    if expect.learn_alpha:  # a column anew: what its α was belongs to the place that it had
        alpha[k] = np.exp(np.log(without.alpha).mean())
    return GaP(from_shares(grown, mean, alpha, beta), alpha, beta)
