"""scikit-learn's face: `GammaPoissonMF`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from gapmf.counts import check_counts
from gapmf.em import start
from gapmf.em.certificate import Certificate, certify
from gapmf.em.exact_moments import STEPS, Fit, fit_em
from gapmf.em.expectation import ExactExpectation
from gapmf.em.maximum import WARM_UP, fit_maximum
from gapmf.em.moves import improve
from gapmf.em.record import Callback, History
from gapmf.errors import InvalidInputError
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs
from gapmf.validation import (
    as_float,
    check_alpha,
    check_entries,
    check_number,
    check_option,
    check_positive,
    check_random_state,
    check_whole,
)

ALGORITHMS = ("em-c", "em-ch", "exact")
MAX_ITER = 1000  # for exact moments

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Settings:
    """The estimator's parameters, checked."""

    alpha: Array
    beta: Array
    max_iter: int
    tol: float
    n_init: int
    prune_tol: float
    components: Array | None


def _did_not_leave(
    expect: ExactExpectation, fit: Fit, rng: np.random.Generator, tol: float
) -> bool:
    """Whether all columns have one direction though a perturbed start would gain."""
    model = fit.model
    norms = model.column_norms
    if model.n_components == 1 or not (norms > 0).all():
        return False
    if np.ptp(model.W / norms, axis=1).max() > 1e-6:
        return False
    W = start.perturbed_mean_start(expect.mean_counts, model.alpha, model.beta, rng)
    other = fit_maximum(
        expect, GaP(W, model.alpha, model.beta), max_iter=50, history=History(), warm_up=5
    )
    gain = other.expectation.log_likelihood - fit.expectation.log_likelihood
    return gain > max(tol * expect.n_tokens, 1e-6)


class GammaPoissonMF(BaseEstimator):  # type: ignore[misc]
    """Gamma-Poisson matrix factorisation, fitted by its marginal likelihood.

    counts X (N, F), samples × features: X is the paper's Vᵀ. x_nf ~ Poisson([W h_n]_f) with
    h_nk ~ Gamma(α_k, β_k); W maximises log p(X | W) with the activations h integrated out.

    Parameters
    ----------
    n_components : int
        K, the number of columns of W.
    algorithm : {"exact", "em-c", "em-ch"}
        "exact" climbs to a maximum on the exact gradient, then tries to exchange columns (when
        α differs) and to regrow the smallest one; "em-c" and "em-ch" are the paper's EM
        algorithms. All use exact moments, for small K: 3 at hundreds or thousands of counts a
        sample, more when the counts are small.
    alpha, beta : float or array-like, (K,)
        Shape and rate of the activations' Gamma prior. In the paper: α, β. Scaling W and β
        together changes nothing, so β only sets the scale of W.
    max_iter : int, optional
        Iterations at most; by default 1000.
    tol : float
        "em-c" and "em-ch" stop when the gain still to be expected is below `tol` nats a token,
        and a short climb on the gradient finds no more either. "exact" always goes to the top.
    init : {"mean", "random"} or array-like, (K, F)
        "mean" is the paper's starting point, perturbed from `random_state` since it is a
        saddle; "random" shares each feature's mean out at random; or components to start from.
    n_init : int
        Starts, of which the one with the highest likelihood is kept: the likelihood has
        several maxima.
    prune_tol : float
        The share of the expected counts above which a component counts in `rank_`.
    random_state : None, int, Generator or RandomState
    n_jobs : int, optional
        Threads. The result does not depend on it.
    callbacks : sequence of callables, optional
        Each is called after every iteration with one record (`iteration`, `seconds`,
        `n_sweeps`, `log_likelihood`, `model`); returning True stops the fit.

    Attributes
    ----------
    components_ : array, (K, F)
        Wᵀ.
    model_ : GaP
    alpha_ : array, (K,)
    log_likelihood_ : float
        log p(X | W), exactly.
    rank_ : int
        The number of components whose share of the expected counts exceeds `prune_tol`.
    n_iter_, converged_ : int, bool
    history_ : dict of arrays, an entry an iteration
        "seconds", "n_sweeps", "norms" (n_iter, K), "log_likelihood".
    certificate_ : Certificate
        How near W is to a maximum: the projected gradient and the stationarity identity; and
        the score r_f, the slope of the likelihood at one more, empty component.
    n_features_in_ : int

    Examples
    --------
    >>> from gapmf import GammaPoissonMF
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=100, random_state=0)
    >>> est = GammaPoissonMF(n_components=2, random_state=0).fit(X)
    >>> est.components_.shape, est.rank_, est.converged_
    ((2, 4), 2, True)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        algorithm: str = "exact",
        alpha: ArrayLike = 1.0,
        beta: ArrayLike = 1.0,
        max_iter: int | None = None,
        tol: float = 1e-5,
        init: str | ArrayLike = "mean",
        n_init: int = 1,
        prune_tol: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.n_components = n_components
        self.algorithm = algorithm
        self.alpha = alpha
        self.beta = beta
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.prune_tol = prune_tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None) -> GammaPoissonMF:
        """Fit W to counts X, samples × features.

        Parameters
        ----------
        X : counts, (N, F)
            NumPy array, SciPy sparse, pandas or polars frame.
        y : ignored
        """
        counts = check_counts(X)
        settings = self._check(counts)
        rng = check_random_state(self.random_state)
        expect = ExactExpectation(counts, self.n_jobs)
        best: tuple[Fit, History] | None = None
        for i in range(settings.n_init):
            history = History(self.callbacks or ())
            model = GaP(self._start(expect, settings, rng), settings.alpha, settings.beta)
            fit = self._climb(i, expect, model, settings, history)
            if best is None or fit.expectation.log_likelihood > best[0].expectation.log_likelihood:
                best = fit, history
            if history.stopped:
                break
        assert best is not None
        fit, history = best
        if self.algorithm == "exact":
            room = settings.max_iter - len(history) - 1
            if room > 0:
                fit = improve(expect, fit, max_iter=room, history=history)
        self._keep(expect, fit, history, rng)
        return self

    def _check(self, counts: sp.csr_array) -> _Settings:
        """Everything that the constructor stored untouched, checked and in its final form."""
        K = check_whole(self.n_components, "n_components")
        check_option(self.algorithm, ALGORITHMS, "algorithm")
        check_n_jobs(self.n_jobs)
        max_iter = MAX_ITER if self.max_iter is None else check_whole(self.max_iter, "max_iter")
        callbacks = () if self.callbacks is None else self.callbacks
        if not isinstance(callbacks, Sequence) or not all(callable(c) for c in callbacks):
            raise InvalidInputError(
                f"callbacks must be a list of callables of one record, but is {callbacks!r}"
            )
        return _Settings(
            alpha=check_alpha(self.alpha, K),
            beta=check_positive(self.beta, K, "beta"),
            max_iter=max_iter,
            tol=check_number(self.tol, "tol", least=0.0),
            n_init=check_whole(self.n_init, "n_init"),
            prune_tol=check_number(self.prune_tol, "prune_tol", least=0.0),
            components=self._check_init(K, counts),
        )

    def _check_init(self, K: int, counts: sp.csr_array) -> Array | None:
        """The components to start from, where `init` is an array."""
        if isinstance(self.init, str):
            check_option(self.init, ("mean", "random"), "init")
            return None
        components = as_float(
            self.init, "init", "'mean', 'random' or numbers, components × features"
        )
        if components.shape != (K, counts.shape[1]):
            raise InvalidInputError(
                f"init must have shape {(K, counts.shape[1])}, components × features, "
                f"but has shape {components.shape}"
            )
        check_entries(components, "init")
        if self.n_init != 1:
            raise InvalidInputError(
                "with components in init every start is the same: n_init must be 1"
            )
        unmet = np.flatnonzero((components.sum(axis=0) == 0) & (np.asarray(counts.sum(axis=0)) > 0))
        if unmet.size:
            raise InvalidInputError(
                f"feature {unmet[0]} has counts, but every component of init is 0 there: "
                "EM cannot leave zero, so start from something positive"
            )
        return components

    def _start(
        self, expect: ExactExpectation, settings: _Settings, rng: np.random.Generator
    ) -> Array:
        if settings.components is not None:
            return settings.components.T
        begin = start.perturbed_mean_start if self.init == "mean" else start.random_start
        return begin(expect.mean_counts, settings.alpha, settings.beta, rng)

    def _climb(
        self, i: int, expect: ExactExpectation, model: GaP, settings: _Settings, history: History
    ) -> Fit:
        if self.algorithm == "exact":
            # Every second start goes without the warm-up: it ends in other basins, and some
            # of these are higher.
            return fit_maximum(
                expect,
                model,
                max_iter=settings.max_iter,
                history=history,
                warm_up=0 if i % 2 else WARM_UP,
            )

        def left(fit: Fit) -> float:
            """What a short climb from here gains: EM may be slow rather than done."""
            climb = fit_maximum(expect, fit.model, max_iter=25, history=History(), warm_up=0)
            return climb.expectation.log_likelihood - fit.expectation.log_likelihood

        return fit_em(
            expect,
            model,
            STEPS[self.algorithm],
            max_iter=settings.max_iter,
            tol=settings.tol,
            history=history,
            left=left,
        )

    def _keep(
        self, expect: ExactExpectation, fit: Fit, history: History, rng: np.random.Generator
    ) -> None:
        model = fit.model
        certificate = certify(expect, model, fit.expectation)
        stuck = _did_not_leave(expect, fit, rng, self.tol)
        self.model_ = model
        self.components_ = model.W.T.copy()
        self.alpha_ = model.alpha.copy()
        self.log_likelihood_ = fit.expectation.log_likelihood
        self.rank_ = int((model.shares > self.prune_tol).sum())
        self.n_iter_ = len(history)
        self.converged_ = fit.converged
        self.history_ = history.arrays(model.n_components)
        self.certificate_: Certificate = certificate
        self.n_features_in_ = model.n_features
        if not fit.converged and not history.stopped:
            advice = "raise max_iter" if self.algorithm == "exact" else "raise max_iter or tol"
            warnings.warn(
                f"{self.algorithm} stopped after {self.n_iter_} iterations before it converged: "
                + advice,
                ConvergenceWarning,
                stacklevel=3,
            )
        if stuck:
            warnings.warn(
                "the fit did not leave its symmetric starting point: all components are the same "
                "up to scale, and others are better; try another random_state or init='random'",
                ConvergenceWarning,
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
