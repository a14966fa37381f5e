"""scikit-learn's face: `GammaPoissonMF`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from gapmf.answers import Answers
from gapmf.counts import check_counts
from gapmf.em import monte_carlo
from gapmf.em.certificate import Certificate, certify
from gapmf.em.expectation import ExactExpectation
from gapmf.em.learned import say_where_alpha_ended
from gapmf.em.record import Callback, History
from gapmf.em.schedules import Outcome
from gapmf.em.search import search
from gapmf.engines.local import LocalEngine
from gapmf.errors import TooCostlyError
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs
from gapmf.ranks.questions import RankQuestions
from gapmf.ranks.refit import for_comparison
from gapmf.settings import Settings, check_settings
from gapmf.validation import check_random_state


class GammaPoissonMF(Answers, RankQuestions, BaseEstimator):  # type: ignore[misc]
    """Gamma-Poisson matrix factorisation, fitted by its marginal likelihood.

    counts X (N, F), samples × features: X is the paper's Vᵀ. x_nf ~ Poisson([W h_n]_f) with
    h_nk ~ Gamma(α_k, β_k); W maximises log p(X | W) with the activations h integrated out.

    Parameters
    ----------
    n_components : int
        K, the number of columns of W.
    algorithm : {"mcem-c", "mcem-h", "mcem-ch", "exact", "em-c", "em-ch"}
        "mcem-c", "mcem-h" and "mcem-ch" are the paper's Monte Carlo EM, for any K: expectations
        come from Gibbs sampling. "exact" climbs to a maximum on the exact gradient, then tries
        to exchange columns (when α differs) and to regrow the smallest one; "em-c" and "em-ch"
        are the paper's EM algorithms. These three use exact moments, for small K: 3 at hundreds
        or thousands of counts a sample, more when the counts are small.
    alpha, beta : float or array-like, (K,)
        Shape and rate of the activations' Gamma prior. In the paper: α, β. Scaling W and β
        together changes nothing, so β only sets the scale of W.
    learn_alpha : bool or {"component", "shared"}
        Learn α from the data too, starting from `alpha`: one for each component ("component",
        the same as True) or one for all ("shared", from the geometric mean of `alpha` when that
        differs). For "mcem-c", "em-c" and "exact". α stays between 1e-4 and 1e4, and a warning
        says where it ended at a bound: at 1e4 a component varies no more than Poisson counts do. A
        component that vanished keeps its α. "em-c" needs the law of component sizes, which
        costs far more than "exact" at K ≥ 3 and hundreds of counts a sample.
    schedule : {"adaptive", "paper", "saem"}
        Monte Carlo only. "adaptive": one sweep an iteration, with momentum, and twice as many
        whenever noise rather than distance limits the progress. "saem": one sweep an iteration;
        once gains drown in noise, statistics are averaged, with steps of size j^-0.75 in windows
        of 20 iterations, and sweeps doubled as above; without momentum, so slower where EM is
        slow. "paper":
        `n_burn_in` and then `n_draws` sweeps an iteration, from the last draw of the iteration
        before, for exactly `max_iter` iterations, without a stopping rule.
    n_draws, n_burn_in : int, optional
        For schedule="paper" only; by default 150 each, as in the paper.
    max_iter : int, optional
        Iterations at most; by default 2000 for "adaptive" and "saem", 500 for "paper", 1000
        with exact moments.
    tol : float
        "adaptive" and "saem" measure what each window of iterations gained in log-likelihood,
        with its error. They stop when gain and twice its error together are below `tol` nats
        a token for each sweep of the window (for "saem": for each full step that its steps
        add up to), and below 5000 `tol` nats a parameter in all; or when at 1024 sweeps an
        iteration gains still cannot be told from nothing.
        "em-c" and "em-ch" stop when the gain still to be expected is below `tol` nats a token,
        and a short climb on the gradient finds no more either. "exact" always goes to the top.
    init : {"mean", "random"} or array-like, (K, F)
        "mean" is the paper's starting point: all components alike. It is a saddle, which Monte
        Carlo leaves by its own noise; with exact moments it is perturbed from `random_state`.
        "random" shares each feature's mean out at random. Or components to start from.
    n_init : int
        Starts, of which the one with the highest likelihood (estimated where it is not exact)
        is kept: the likelihood has several maxima.
    prune_tol : float
        The share of the expected counts above which a component counts in `rank_`.
    score_every : int
        Monte Carlo only: log p(X | W) enters the history, and what callbacks see, after every
        so many iterations (0: never), outside the fit's clock. With exact moments it always
        does.
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
        α as it was given, or as it was learned.
    log_likelihood_ : float
        log p(X | W), exactly. With exact moments only.
    rank_ : int
        The number of components whose share of the expected counts exceeds `prune_tol`.
    n_iter_, converged_ : int, bool
    history_ : dict of arrays, an entry an iteration
        "seconds", "n_sweeps", "norms" (n_iter, K), "log_likelihood" (nan where it was not
        asked for).
    certificate_ : Certificate
        How near W is to a maximum: the projected gradient and the stationarity identity; and
        the score r_f, the slope of the likelihood at one more, empty component. With exact
        moments only.
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
        algorithm: str = "mcem-c",
        alpha: ArrayLike = 1.0,
        beta: ArrayLike = 1.0,
        learn_alpha: bool | str = False,
        schedule: str = "adaptive",
        n_draws: int | None = None,
        n_burn_in: int | None = None,
        max_iter: int | None = None,
        tol: float = 1e-5,
        init: str | ArrayLike = "mean",
        n_init: int = 1,
        prune_tol: float = 1e-3,
        score_every: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.n_components = n_components
        self.algorithm = algorithm
        self.alpha = alpha
        self.beta = beta
        self.learn_alpha = learn_alpha
        self.schedule = schedule
        self.n_draws = n_draws
        self.n_burn_in = n_burn_in
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.prune_tol = prune_tol
        self.score_every = score_every
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
        settings = check_settings(self.get_params(deep=False), counts)
        check_n_jobs(self.n_jobs)
        rng = check_random_state(self.random_state)
        try:
            if settings.monte_carlo:
                self._draw(counts, settings, rng)
            else:
                self._integrate(counts, settings, rng)
        finally:  # after Ctrl-C too there may be a model to ask
            self._seed = int(rng.integers(2**63))
        return self

    def _draw(self, counts: sp.csr_array, settings: Settings, rng: np.random.Generator) -> None:
        """Fit by Monte Carlo. After Ctrl-C the attributes hold what there was."""
        best: tuple[float, Outcome, History] | None = None
        for _ in range(settings.n_init):
            history = History(
                settings.callbacks,
                score=lambda model: self._value(counts, model),
                every=settings.score_every,
            )
            seed = int(rng.integers(2**64, dtype=np.uint64))
            engine = LocalEngine(self.n_jobs).load(counts, seed)
            try:
                outcome = monte_carlo.fit(engine, settings, rng, history)
                value = self._value(counts, outcome.model) if settings.n_init > 1 else 0.0
            except KeyboardInterrupt:
                if best is not None:
                    self._keep(best[1].model, best[2], settings, converged=best[1].converged)
                elif history.model is not None:
                    self._keep(history.model, history, settings, converged=False)
                raise
            if best is None or value > best[0]:
                best = value, outcome, history
            if history.stopped:
                break
        assert best is not None
        _, outcome, history = best
        self._keep(outcome.model, history, settings, converged=outcome.converged)
        if settings.schedule != "paper" and not outcome.converged and not history.stopped:
            self._warn_of_max_iter("raise max_iter or tol")
        if outcome.alike:
            warnings.warn(
                "the fit did not leave its symmetric starting point, nor did it from random ones: "
                "all components are the same but for noise, so that one may be enough",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._say_where_alpha_ended(settings)

    def _value(self, counts: sp.csr_array, model: GaP) -> float:
        """The log-likelihood by which starts are compared: for all from the same seed."""
        return for_comparison(counts, model, 0, self.n_jobs, n_particles=256).total

    def _integrate(
        self, counts: sp.csr_array, settings: Settings, rng: np.random.Generator
    ) -> None:
        """Fit with exact moments."""
        expect = ExactExpectation(counts, self.n_jobs, settings.learn_alpha)
        try:
            found = search(expect, settings, rng)
        except TooCostlyError as error:
            raise TooCostlyError(
                f"{error}; or draw instead of integrating, with algorithm='mcem-c'"
            ) from error
        fit = found.fit
        self._keep(fit.model, found.history, settings, converged=fit.converged)
        self.log_likelihood_ = fit.expectation.log_likelihood
        self.certificate_: Certificate = certify(expect, fit.model, fit.expectation)
        if fit.too_costly:
            warnings.warn(
                f"{self.algorithm} stopped after {self.n_iter_} iterations, at a learned alpha "
                f"beyond which {fit.too_costly}",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif not fit.converged and not found.history.stopped:
            exact = self.algorithm == "exact"
            self._warn_of_max_iter("raise max_iter" if exact else "raise max_iter or tol")
        self._say_where_alpha_ended(settings)
        if found.stuck:
            warnings.warn(
                "the fit did not leave its symmetric starting point: all components are the same "
                "up to scale, and others are better; try another random_state or init='random'",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _warn_of_max_iter(self, advice: str) -> None:
        warnings.warn(
            f"{self.algorithm} stopped after {self.n_iter_} iterations before it converged: "
            + advice,
            ConvergenceWarning,
            stacklevel=4,
        )

    def _say_where_alpha_ended(self, settings: Settings) -> None:
        """Warn of a learned α at its bound."""
        ended = say_where_alpha_ended(self.model_) if settings.learn_alpha else None
        if ended:
            warnings.warn(ended, UserWarning, stacklevel=4)

    def _keep(self, model: GaP, history: History, settings: Settings, *, converged: bool) -> None:
        """Set what every algorithm leaves, and drop what an earlier fit left."""
        for name in ("log_likelihood_", "certificate_"):
            if hasattr(self, name):
                delattr(self, name)
        self.model_ = model
        self.components_ = model.W.T.copy()
        self.alpha_ = model.alpha.copy()
        self.rank_ = int((model.shares > settings.prune_tol).sum())
        self.n_iter_ = len(history)
        self.converged_ = converged
        self.history_ = history.arrays(model.n_components)
        self.n_features_in_ = model.n_features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
