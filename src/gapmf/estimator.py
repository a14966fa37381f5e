"""scikit-learn's face: `GammaPoissonMF`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from gapmf import __version__
from gapmf.answers import Answers
from gapmf.counts import check_counts
from gapmf.em.fit import Fitted, Task, fit_task, weigh
from gapmf.em.history import Callback
from gapmf.em.settings import check_settings
from gapmf.errors import InvalidInputError
from gapmf.parallel import check_n_jobs
from gapmf.progress import progress_bar
from gapmf.ranks.questions import RankQuestions
from gapmf.saving import Saving, pack_fitted, pack_parameters
from gapmf.storage.checkpoint import Checkpoint, check_no_unfinished_fit
from gapmf.validation import check_random_state


class GammaPoissonMF(Answers, RankQuestions, Saving, BaseEstimator):  # type: ignore[misc]
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
    smoothing : float
        A weight ε in [0, 1) of a background in everything that is said about samples after the
        fit: each component is mixed with the frequencies of features (each counted once more
        than it was), its norm kept. Without it a sample with a count of a feature that had none
        in the fit has log-likelihood −inf. `fit` and `components_` are untouched.
    prune_tol : float
        The share of the expected counts above which a component counts in `rank_`.
    score_every : int
        Monte Carlo only: log p(X | W) enters the history, and what callbacks see, after every
        so many iterations (0: never), outside the fit's clock. With exact moments it always
        does.
    random_state : None, int, Generator or RandomState
    n_jobs : int, optional
        Threads. The result does not depend on it.
    checkpoint : path, optional
        A file that is written every so often (15 seconds, or more where writing takes long), so
        that a fit that was killed can go on: see `resume`. With exact moments it holds the
        starting point alone, from where the same fit is made again. One file for one fit.
    warm_start : bool
        Whether `fit` starts from where the last one ended: its components, and its α if that is
        learned.
    verbose : int
        1 shows the progress on standard error.
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
    feature_counts_ : array, (F,)
        Σ_n x_nf.
    certificate_ : Certificate
        How near W is to a maximum: the projected gradient and the stationarity identity; and
        the score r_f, the slope of the likelihood at one more, empty component. With exact
        moments only.
    n_features_in_ : int
    feature_names_in_ : array of str, (F,)
        When X was a frame.

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
        smoothing: float = 0.0,
        prune_tol: float = 1e-3,
        score_every: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        warm_start: bool = False,
        verbose: int = 0,
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
        self.smoothing = smoothing
        self.prune_tol = prune_tol
        self.score_every = score_every
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit W to counts X, samples × features.

        After Ctrl-C it returns with the model so far, and a warning.

        Parameters
        ----------
        X : counts, (N, F)
            NumPy array, SciPy sparse, pandas or polars frame.
        y : ignored
        sample_weight : array-like, (N,), optional
            How many times each sample counts. With Monte Carlo whole numbers: such a sample
            is drawn for as often.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]]).n_features_in_
        2
        """
        begun = self._begin(X, sample_weight)
        rng = check_random_state(self.random_state)
        checkpoint = None
        if self.checkpoint is not None:
            check_no_unfinished_fit(self.checkpoint, version=__version__)
            parameters = pack_parameters(self)
            if self.warm_start and hasattr(self, "model_"):  # which the file does not have
                parameters |= self._where_it_ended(begun.counts.shape[1])
            head = {"parameters": parameters, "data": begun.fingerprint()}
            checkpoint = Checkpoint(self.checkpoint, head, version=__version__)
        return self._run(begun, rng, checkpoint)

    def _begin(self, X: Any, sample_weight: Any) -> Task:
        """Check everything that a fit depends on."""
        counts = check_counts(X)
        parameters = self.get_params(deep=False)
        if self.warm_start and hasattr(self, "model_"):
            parameters |= self._where_it_ended(counts.shape[1])
        settings = check_settings(parameters, counts)
        check_n_jobs(self.n_jobs)
        return Task(X, *weigh(counts, sample_weight, settings), settings)

    def _where_it_ended(self, n_features: int) -> dict[str, Any]:
        """Parameters that start a fit from the last one."""
        if self.components_.shape != (self.n_components, n_features):
            raise InvalidInputError(
                f"with warm_start the fit goes on from the {self.components_.shape[0]} components "
                f"× {self.components_.shape[1]} features of the last one, but now there are "
                f"{self.n_components} × {n_features}: use warm_start=False"
            )
        alpha = {"alpha": self.alpha_} if self.learn_alpha else {}
        return {"init": self.components_, "n_init": 1} | alpha

    def _run(
        self,
        task: Task,
        rng: np.random.Generator,
        checkpoint: Checkpoint | None,
        begun: dict[str, Any] | None = None,
    ) -> Self:
        """Fit, keep what comes of it, and say what there is to say."""
        with progress_bar(self.verbose, task.settings) as settings:
            fitted = fit_task(task, settings, rng, self.n_jobs, checkpoint, begun)
        validate_data(self, task.X, reset=True, skip_check_array=True)  # names of features
        self._keep(fitted, task)
        self._seed = int(rng.integers(2**63))
        if checkpoint is not None and not fitted.interrupted:
            checkpoint.write({"fitted": pack_fitted(self)}, finished=True)
        for note in fitted.notes:
            warnings.warn(note.message, note.category, stacklevel=3)
        return self

    def _keep(self, fitted: Fitted, task: Task) -> None:
        """Set what every algorithm leaves, and drop what an earlier fit left."""
        for name in ("log_likelihood_", "certificate_"):
            if hasattr(self, name):
                delattr(self, name)
        model = fitted.model
        self.model_ = model
        self.components_ = model.W.T.copy()
        self.alpha_ = model.alpha.copy()
        self.rank_ = int((model.shares > task.settings.prune_tol).sum())
        self.n_iter_ = len(fitted.history)
        self.converged_ = fitted.converged
        self.history_ = fitted.history.arrays(model.n_components)
        self.feature_counts_ = task.feature_counts()
        self._interrupted = fitted.interrupted
        if fitted.exact is not None:
            self.log_likelihood_, self.certificate_ = fitted.exact

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
