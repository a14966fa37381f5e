"""The estimator, with scikit-learn's interface: `GammaPoissonMF`."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

import gapmf
from gapmf import persistence
from gapmf.analysis.groups import (
    GroupComparison,
    check_groups,
    check_level,
    check_sizes,
    choose_for_posterior,
    compare_groups,
)
from gapmf.analysis.in_blocks import (
    apply_to_blocks,
    log_likelihood_of_blocks,
    mean_log_likelihood,
    refuse_options,
)
from gapmf.analysis.predictive_check import PredictiveCheck, check_model_fit, choose_samples
from gapmf.analysis.recommend import Recommendations, recommend
from gapmf.counts import (
    MATCH_GENES,
    check_counts,
    describe_unknown,
    is_anndata,
    is_dask,
    warn_of_duplicate_genes,
    with_feature_names,
)
from gapmf.csr import only_features
from gapmf.em import fit as em_fit
from gapmf.em.averages import Stream
from gapmf.em.fit import FitData, FitResult, refuse_in_memory_only
from gapmf.em.fit_state import FitState, check_state
from gapmf.em.history import Callback, History, Iteration
from gapmf.em.settings import (
    Settings,
    check_callbacks,
    check_no_pseudo_count,
    check_settings,
    check_smoothing,
    check_verbose,
)
from gapmf.em.stream import SWEEPS, after_block, begin, blocks_of, go_on, new_stream
from gapmf.engines.choose import (
    as_blocks,
    check_engine,
    check_place,
    feature_frame,
    is_out_of_memory,
    open_engine,
)
from gapmf.errors import InvalidInputError
from gapmf.io.matrices import warn_if_normalised
from gapmf.likelihood.information import StandardErrors, standard_errors
from gapmf.likelihood.marginal import log_likelihood_of
from gapmf.likelihood.partial import total_log_likelihood
from gapmf.likelihood.planning import MAX_COST
from gapmf.likelihood.posterior import MAX_DRAWS, Posterior, posterior_of
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP
from gapmf.observation import Observation, check_all_observed_somewhere, merge_missing, observe
from gapmf.parallel import check_n_jobs, is_interruption
from gapmf.persistence import Fitted, SavedFit
from gapmf.progress import fit_bar, progress_bar
from gapmf.ranks.features import component_labels, top_features
from gapmf.ranks.report import CRITERIA, RankReport, make_report
from gapmf.ranks.stability import Stability, compare
from gapmf.storage.checkpoint import Checkpoint, check_no_unfinished_fit
from gapmf.types import Array
from gapmf.validation import (
    as_float,
    check_entries,
    check_number,
    check_option,
    check_random_state,
    check_whole,
    own_generator,
)

FAR_APART = 6  # times the precision: a disagreement of chains to warn of


def _fits_streams(est: GammaPoissonMF) -> bool:
    """Return whether the estimator has `partial_fit`; scikit-learn's way to tell."""
    if est.algorithm != "mcem-c":
        raise AttributeError(
            f"partial_fit makes the steps of 'mcem-c', but algorithm={est.algorithm!r}: use "
            "algorithm='mcem-c', or fit"
        )
    return True


class GammaPoissonMF(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Gamma-Poisson matrix factorisation, fitted by its marginal likelihood.

    The counts X have one row per sample and one column per feature; X is the transpose of the V
    of the paper [1]_. The model is x_nf ~ Poisson([W h_n]_f) with h_nk ~ Gamma(α_k, β_k). W
    maximises log p(X | W), where the activations h are integrated out. A token is one unit of
    count: one word of a document, or one molecule in a cell.

    Parameters
    ----------
    n_components : int, default=10
        Number of components. In the paper, this is K.
    algorithm : str, default="mcem-c"
        "mcem-c", "mcem-h" and "mcem-ch" are the paper's Monte Carlo EM algorithms, for any
        number of components. They estimate the E-step by Gibbs sampling. The letters name their
        latent variables: C, the counts split by component, and H, the activations. Unless
        schedule="paper", "mcem-h" is the same as "mcem-ch": see `schedule`.

        "exact", "em-c" and "em-ch" use exact posterior moments, for two or three components and
        small data. An iteration that would take more than 1e11 operations is refused with an
        error. "exact" maximises the likelihood by gradient ascent with the exact gradient. Then it
        tries to exchange components (if their α differ), and to remove the smallest one and grow
        it again. "em-c" and "em-ch" are the paper's EM algorithms; "em-c" is the
        parameter-expanded form [2]_ of "em-ch".

        "vbem" and "mjle" maximise something else, for comparison. "vbem" is mean-field
        variational EM [3]_, which maximises a lower bound of log p(X | W). "mjle" is maximum
        joint likelihood [4]_: it fits the activations too, and maximises log p(X, H | W), which
        has a maximum if all α are larger than 1. If all α are 1, it is KL-NMF, with W scaled so
        that the mean activations are those of the prior.
    alpha, beta : float or array-like of shape (n_components,), default=1.0
        Shape and rate of the Gamma prior of the activations. In the paper, these are α and β.
        Multiplying W and β by the same factor does not change the model, so β only sets the
        scale of W.
    learn_alpha : bool or {"component", "shared"}, default=False
        Whether to learn α too, starting from `alpha`: one value per component ("component", the
        same as True), or one for all ("shared", which starts from the geometric mean if the
        values of `alpha` differ). Possible with "mcem-c", "em-c", "exact" and "vbem". α stays
        between 1e-4 and 1e4; a warning names the components that end at a bound. At 1e4, the
        counts of a component vary no more than Poisson counts do. An empty component keeps its α.
        "em-c" needs the distribution of each component's total count in a sample. With 3
        components and hundreds of counts per sample, it is far slower than "exact".
    pseudo_count : float or "auto", default=0.0
        Number η ≥ 0 that is added to the expected count of each feature in each component. The
        direction of a component is its weights divided by their sum; the sum, which is its norm,
        does not change. This acts as a Dirichlet prior on the directions: the fit is the maximum
        of log p(X | W) + η Σ_fk log(F w_fk/S_k), where F is the number of features and S_k the
        norm of component k. With schedule="posterior", the fit is the posterior mean instead of
        the maximum. All features get some weight, those without counts too. The prior keeps
        components with few counts from overfitting. With 0, the fit is the paper's. "auto"
        chooses η from the data during a Monte Carlo fit (not with schedule="paper"). Not for
        "exact", schedule="online" and `partial_fit`.
    schedule : str, default="adaptive"
        How many sweeps of the Gibbs sampler each iteration of Monte Carlo EM makes, and how it uses
        them: "adaptive", "posterior", "saem", "saem-textbook", "online" or "paper".

        "adaptive" makes one sweep per iteration, with momentum. It doubles the number of sweeps
        whenever Monte Carlo noise, and not the distance to the maximum, limits the progress.

        "posterior" predicts new samples best, and departs from the paper: it needs a prior
        (`pseudo_count`), and returns the posterior mean of the components' directions instead of
        the maximum. It draws W, C and H in turns, in windows each as long as all before it, and
        averages the last window ("mcem-c" only, no unobserved entries).

        "saem" (stochastic approximation EM) also begins with one sweep per iteration. A window is a
        series of iterations after which the fit decides how to go on. Once the gain of a window
        cannot be told from noise, "saem" averages the expected counts of the E-step over
        iterations: iteration j of a window gets weight j^-0.75, and the average before it the rest.
        It also doubles the sweeps like "adaptive". It has no momentum, so it is slower where EM is
        slow. "saem-textbook" is "saem" with weights that are never restarted, and with one sweep
        per iteration throughout.

        "online" is for many samples, with "mcem-c" only and without exposures. It makes the steps
        of "adaptive" on a random part of the samples, with six tokens for each entry of W. The part
        is made four times as large when further iterations on it gain little, up to all samples.
        The fit stops early. Where there are less than 24 tokens for each entry of W it is
        "adaptive". (`partial_fit` is for samples that are seen once, by on-line EM [5]_.)

        "paper" makes `n_burn_in` and then `n_draws` sweeps per iteration, starting from the last
        draw of the iteration before, for exactly `max_iter` iterations.

        "adaptive", "saem" and "online" use E[C | h] instead of draws of C. One multiplicative
        update of "mcem-h" is then the update of "mcem-ch"; further updates would need every draw
        of h.
    n_draws, n_burn_in : int, default=None
        Sweeps per iteration of schedule="paper": `n_burn_in` sweeps are discarded, then `n_draws`
        are used. If None, each is 150, as in the paper's synthetic examples. For NIPS, the paper
        has 125 each.
    max_iter : int, default=None
        Maximum number of iterations. If None, it is 500 for schedule="paper", 2000 for the
        other schedules, and 1000 for algorithms without Monte Carlo.
    tol : float, default=1e-5
        Tolerance of the stopping rule. Smaller values give longer, more exact fits.

        "adaptive" and "saem" divide the fit into windows of iterations, and measure each window's
        gain g in log-likelihood and its standard error e. The fit stops when \|g\| + 2e is below
        both `tol` × tokens × sweeps of the window and 5000 × `tol` × parameters, or when
        \|g\| < 2e at 1024 sweeps per iteration. The parameters are the entries of W of features
        with counts. ("saem" counts an iteration's sweeps times its weight. "online" stops when 12
        iterations on all samples gain less than 5000 × `tol` × parameters; on a part of the
        samples, a gain below twice this makes the part larger.) "posterior" stops when the average
        of a window, of at least 240 draws of W, gains less than 2000 × `tol` nats per token on that
        of the window before, which is half as long. `last_gain_` tells what the last window gained.

        "em-c" and "em-ch" stop when the expected remaining gain is below `tol` nats per token, and
        a few steps of gradient ascent do not gain more. "vbem" and "mjle" stop when the expected
        remaining gain, in what they maximise, is below `tol` nats per token. "exact" goes on until
        gradient ascent gains nothing more, whatever `tol` is.
    init : {"mean", "random"} or array-like of shape (n_components, n_features), default="mean"
        "mean" is the paper's starting point, where all components are alike. This is a saddle
        point. Monte Carlo noise drives the fit away from it; without Monte Carlo, the start is
        perturbed at random. "random" divides the mean of each feature among the components at
        random. An array gives the components to start from.
    n_init : int, default=1
        Number of starts. There are several maxima, so the fit with the highest likelihood (or
        estimate of it) is kept. For "vbem" and "mjle", it is the highest value of what they
        maximise.
    smoothing : float, default=1e-3
        Weight in [0, 1) of the overall feature frequencies that are mixed into each component
        when samples are scored or transformed. One is added to the count of each feature, and the
        norms of the components do not change. With 0, a sample that has a feature without counts
        in the fit has log-likelihood −inf. `fit` and `components_` do not depend on it.
    precision : float, default=0.05
        Target for the Monte Carlo error (2.2 standard errors) of a sample's activations in
        `transform`, `proportions`, `posterior`, `recommend`, `compare` and `predictive_check`,
        relative to the Euclidean norm of the sample's activations, each measured in units of
        max(α_k, 1)/β_k. The Gibbs chains of a sample stop when the error is below it. Each chain
        makes at most 1/precision² sweeps (this limit is at least 64 and at most 4096), so the
        target may be missed: `posterior(X).reliable` is then False. This error is not the posterior
        standard deviation of an activation, which is often larger, and which more sweeps do not
        reduce.
    prune_tol : float, default=1e-3
        A component counts in `rank_` if its share of the expected counts is above this.
    score_every : int, default=0
        Number of iterations between two computations of log p(X | W), for the history and for
        callbacks; 0 for none. The time that they take is not counted in the history. With exact
        moments, log p(X | W) is known after every iteration anyway.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness. The same seed gives the same result, for any `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None means 1, and -1 all cores. The result does not depend on it.
    engine : {"local", "dask"} or distributed.Client, default="local"
        Where the Gibbs sampler of the Monte Carlo algorithms runs. "local" is this machine. "dask"
        is the cluster of the current `distributed.Client`, or of one that is passed: for Dask
        arrays, Dask data frames, and shards that all workers can read. The result does not depend
        on it.
    checkpoint : str or path, default=None
        File to which the fit is saved every 15 seconds (less often if writing is slow), so that
        `resume` can continue it after a crash. With exact moments, only the start of the fit is
        saved. Each fit needs its own file.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the last fit: from its components, and from its α
        if α is learned.
    verbose : int, default=0
        1 shows a progress bar on standard error.
    callbacks : sequence of callables, default=None
        Each is called after every iteration with one record (`iteration`, `seconds`,
        `n_sweeps`, `log_likelihood`, `model`, `objective`). A callback that returns True stops
        the fit.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components. In the paper, this is Wᵀ.
    model_ : GaP
        The fitted model.
    alpha_ : ndarray of shape (n_components,)
        α, as given or as learned.
    pseudo_count_ : float
        η, as given or as chosen.
    log_prior_ : float
        The part η Σ_fk log(F w_fk/S_k) of what the fit maximises: 0 without a prior, or if all
        features have equal weight.
    rank_ : int
        Number of components whose share of the expected counts exceeds `prune_tol`. It may differ
        from `rank_report(X).rank`, the number of components that the rank report keeps.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the stopping rule was met.
    last_gain_ : float
        What the last window of a Monte Carlo fit gained at most, \|g\| + 2e, in nats per token:
        as many iterations more are not expected to gain more than this. Only if `tol` was used,
        and if the fit was long enough to measure it.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    history_ : dict of ndarray
        One entry per iteration. "seconds" and "n_sweeps" are cumulative: their last entries are
        the totals of the fit. The other values are those after the iteration: "norms", of shape
        (n_iter, n_components); "log_likelihood", nan where it was not computed; "bound", which
        "vbem" maximises; "log_joint_likelihood", which "mjle" maximises; and, if `pseudo_count`
        is not 0, "log_prior", the prior's part of the objective, which is not in the others.
    feature_counts_ : ndarray of shape (n_features,)
        Total count of each feature.
    log_likelihood_ : float
        The exact log p(X | W). Only for "exact", "em-c" and "em-ch".
    certificate_ : Certificate
        How close W is to a maximum: the projected gradient, the stationarity identity, and the
        score test r_f for one more component. Only for "exact", "em-c" and "em-ch".
    activations_ : ndarray of shape (n_samples, n_components)
        The activations that "mjle" fits together with the components. They are not the posterior
        means that `transform` computes.
    exposure_ : {"total", "given"}
        Only if the fit had exposures: those that "total" computes, or those that were given.
    mean_total_ : float
        Mean total count of the samples of the fit. Only with exposure="total", which divides by
        it.
    n_unobserved_ : int
        Number of entries of X that were not observed.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X was a data frame or an AnnData.

    See Also
    --------
    gapmf.select_rank : Choose the number of components.
    gapmf.fit_anndata : Fit an AnnData object, and store the result in it.

    References
    ----------
    .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
       Gamma-Poisson Matrix Factorization", ICML, 2018.
    .. [2] C. Liu, D. B. Rubin and Y. N. Wu, "Parameter expansion to accelerate EM: the PX-EM
       algorithm", Biometrika, 1998.
    .. [3] O. Dikmen and C. Févotte, "Maximum marginal likelihood estimation for nonnegative
       dictionary learning in the Gamma-Poisson model", IEEE Transactions on Signal Processing,
       2012.
    .. [4] Canny, J., "GaP: a factor model for discrete data", SIGIR, 2004.
    .. [5] O. Cappé and E. Moulines, "On-line expectation-maximization algorithm for latent data
       models", Journal of the Royal Statistical Society B, 2009.

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
        pseudo_count: float | str = 0.0,
        schedule: str = "adaptive",
        n_draws: int | None = None,
        n_burn_in: int | None = None,
        max_iter: int | None = None,
        tol: float = 1e-5,
        init: str | ArrayLike = "mean",
        n_init: int = 1,
        smoothing: float = 1e-3,
        precision: float = 0.05,
        prune_tol: float = 1e-3,
        score_every: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
        engine: Any = "local",
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
        self.pseudo_count = pseudo_count
        self.schedule = schedule
        self.n_draws = n_draws
        self.n_burn_in = n_burn_in
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.smoothing = smoothing
        self.precision = precision
        self.prune_tol = prune_tol
        self.score_every = score_every
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks

    # Fitting.

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
        observed: Any = None,
        missing: str | None = None,
    ) -> Self:
        """Fit the components to counts.

        After Ctrl-C, the estimator keeps the current model, and a warning says so.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or AnnData of shape (n_samples, n_features)
            Counts: whole numbers, at least 0. From an AnnData, this and all other methods take
            `X.X` and the names of the genes; `fit_anndata` also reads layers. With a Monte Carlo
            algorithm, X may also be shards (see `gapmf.open_shards`) or an AnnData in backed mode,
            of which one part per thread is in memory, or with engine="dask" a Dask array or data
            frame.
        y : None, default=None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each sample counts. Monte Carlo algorithms need whole numbers, because
            they repeat each sample that many times.
        exposure : float, array-like of shape (n_samples,) or "total", default=None
            Exposure of each sample, > 0: x_nf ~ Poisson(s_n [W h_n]_f). Use it for what makes the
            counts of a sample large or small but says nothing about its composition: sequencing
            depth, hours of observation, area. "total" is the total count of each sample, divided
            by the mean total. None means 1 for all. Not for "vbem" and "mjle".
        observed : array-like or sparse matrix of bool, or "nan", default=None
            Mask with the shape of X, True where an entry was observed. The other entries are left
            out of the likelihood, which is not the same as a count of zero. Any counts there are
            ignored. None means that all entries were observed. "nan" is the same as
            missing="nan", for methods without `missing`.
        missing : {"nan"}, default=None
            With "nan", missing values in a dense array or a data frame were not observed. None
            means that there must not be any.

        Returns
        -------
        GammaPoissonMF
            The fitted estimator.

        See Also
        --------
        resume : Continue a fit that was interrupted.

        Examples
        --------
        >>> GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]]).n_features_in_
        2
        """
        observed = merge_missing(observed, missing)
        data, settings, observed_as = self._check_fit(X, sample_weight, exposure, observed)
        with data:
            rng = own_generator(self.random_state)
            checkpoint = None
            if self.checkpoint is not None:
                check_no_unfinished_fit(self.checkpoint, version=gapmf.__version__)
                parameters = self.get_params(deep=False) | self._warm_start(data.shape[1])
                checkpoint = persistence.new_checkpoint(
                    self.checkpoint,
                    SavedFit(parameters, data.fingerprint),
                    version=gapmf.__version__,
                )
            return self._fit(X, data, settings, rng, checkpoint, observed_as=observed_as)

    @available_if(_fits_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the components with a block of samples, by on-line EM.

        The samples are seen once and not kept, so that memory does not grow with their number.
        Each block is cut into mini-batches of at most 500 samples in random order. Samples are not
        exchanged between blocks, so each block should be a random sample of the data. The first
        call starts from `init`; a call after `fit` goes on from its components. To pass over the
        data several times, call `partial_fit` several times for each block.

        `algorithm` must be "mcem-c", and `pseudo_count` must be 0. For this reason,
        schedule="posterior", which needs a `pseudo_count`, raises an error. Apart from this,
        `schedule`, `tol`, `max_iter`, `n_init`, `checkpoint` and `score_every` are not used.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, AnnData, or iterable of such blocks
            Counts, of shape (n_samples, n_features). The blocks of an iterable, such as a
            generator, are taken one after another.
        y : None, default=None
            Ignored.

        Returns
        -------
        GammaPoissonMF
            The fitted estimator. `n_iter_` is the number of blocks of this call, and `history_`
            has one entry for each; `feature_counts_` are those of all calls.

        See Also
        --------
        fit : Fit to all samples at once.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0)
        >>> for block in ([[4, 1], [0, 2]], [[3, 1]]):
        ...     est = est.partial_fit(block)
        >>> est.feature_counts_
        array([7., 4.])
        """
        with fit_bar(
            check_verbose(self.verbose),
            label=f"partial_fit, K = {self.n_components}",
            max_iter=1,
            prune_tol=self.prune_tol,
            tol=0.0,
        ) as shown:
            callbacks = (*shown, *check_callbacks(self.callbacks))
            return self._partial_fit(X, History(callbacks))

    def _partial_fit(self, X: Any, history: History) -> Self:
        """Take all blocks of X. After Ctrl-C, those that were taken count."""
        stream, seed = self._stream_so_far()
        interrupted = False
        try:
            for block in blocks_of(X):
                known = self.n_features_in_ if stream is not None else None
                counts = check_counts(block, n_features=known, owner=type(self).__name__)
                self._check_names(block, reset=stream is None)
                settings = self._check_stream(counts)
                if stream is None:
                    rng = own_generator(self.random_state)
                    stream, seed = begin(counts.shape[1], settings, rng), int(rng.integers(2**63))
                stream = after_block(stream, counts, settings, self.n_jobs)
                n_sweeps = (len(history) + 1) * (SWEEPS.n_burn_in + SWEEPS.n_draws)
                if history.add(stream.slow.model(), n_sweeps=n_sweeps):
                    break
        except (KeyboardInterrupt, SystemError) as error:
            if not is_interruption(error) or stream is None or history.model is None:
                raise
            interrupted = True
        if stream is None or history.model is None:
            raise InvalidInputError("X has no blocks: partial_fit needs at least one sample")
        model = history.model
        result = FitResult(
            model, history.arrays(model.n_components), False, interrupted=interrupted
        )
        totals = stream.averages.feature_totals.copy()
        fitted = self._fitted_from(result, totals, seed=seed)
        self._store(dataclasses.replace(fitted, stream=stream))
        if interrupted:
            warnings.warn(
                f"partial_fit was interrupted: the last block counts in part, after "
                f"{len(history)} whole blocks",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _stream_so_far(self) -> tuple[Stream | None, int]:
        """Return what `partial_fit` goes on from, and the seed of the fitted attributes."""
        if not hasattr(self, "model_"):
            return None, 0
        if hasattr(self, "exposure_") or self.n_unobserved_:
            raise InvalidInputError(
                "partial_fit cannot go on from a fit with exposures or unobserved entries: use fit"
            )
        if self._fitted.stream is not None:
            return self._fitted.stream, self._seed
        return new_stream(go_on(self.model_, self.feature_counts_), self._seed), self._seed

    def _check_stream(self, counts: sp.csr_array) -> Settings:
        """Check the parameters that `partial_fit` depends on."""
        check_no_pseudo_count(self.pseudo_count, "partial_fit", "fit")
        settings = check_settings(self.get_params(deep=False), counts)
        self._check_others()
        return settings

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
        observed: Any = None,
        missing: str | None = None,
    ) -> Array:
        """Fit the components and compute the activations of the same samples.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or AnnData of shape (n_samples, n_features)
            Counts.
        y : None, default=None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each sample counts, as in `fit`.
        exposure : float, array-like of shape (n_samples,) or "total", default=None
            Exposure of each sample, as in `fit`.
        observed : array-like or sparse matrix of bool, or "nan", default=None
            Which entries were observed, as in `fit`.
        missing : {"nan"}, default=None
            Whether missing values were not observed, as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Activations.

        See Also
        --------
        transform : The same for any samples.

        Examples
        --------
        >>> GammaPoissonMF(1, random_state=0).fit_transform([[4, 1], [0, 2], [3, 1]]).shape
        (3, 1)
        """
        observed = merge_missing(observed, missing)
        self.fit(X, y, sample_weight, exposure, observed)
        return self.transform(X, exposure, observed)

    @classmethod
    def resume(
        cls,
        path: Any,
        X: Any,
        *,
        sample_weight: Any = None,
        exposure: Any = None,
        observed: Any = None,
        missing: str | None = None,
        **changes: Any,
    ) -> Self:
        """Continue a fit from its checkpoint, to bit-for-bit the same result.

        Parameters
        ----------
        path : str or path
            The `checkpoint` of the fit. The fit goes on writing to it.
        X : array-like, sparse matrix, data frame or AnnData of shape (n_samples, n_features)
            The counts of the fit, in any form that `fit` takes: also shards, an AnnData in backed
            mode, or with engine="dask" a Dask array or data frame.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights of the fit.
        exposure, observed : array-like or str, default=None
            The exposures and observed entries of the fit.
        missing : {"nan"}, default=None
            That of the fit.
        **changes : dict
            New values of `n_jobs`, `engine`, `verbose`, `callbacks` or `checkpoint`, which change
            nothing in the result.

        Returns
        -------
        GammaPoissonMF
            The fitted estimator.

        See Also
        --------
        fit : Begin a fit.

        Examples
        --------
        >>> import os, tempfile
        >>> X = [[4, 1], [0, 2], [3, 1]]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "fit.checkpoint")
        ...     est = GammaPoissonMF(1, random_state=0, checkpoint=path).fit(X)
        ...     again = GammaPoissonMF.resume(path, X)  # the fit had ended
        >>> bool((again.components_ == est.components_).all())
        True
        """
        saved = persistence.read_checkpoint(path, changes, version=gapmf.__version__)
        with persistence.conversion(path):
            est = cls(**saved.parameters)
        other = est.checkpoint
        if other is not None and os.path.realpath(other) != os.path.realpath(path):
            check_no_unfinished_fit(other, version=gapmf.__version__)
        observed = merge_missing(observed, missing)
        data, settings, observed_as = est._check_fit(X, sample_weight, exposure, observed)
        with data:
            saved.check_data(path, data.fingerprint)
            if saved.fitted is not None:
                return est._store(saved.fitted)
            assert saved.state is not None
            check_state(saved.state, data.shape, settings, path)
            checkpoint = None
            if est.checkpoint is not None:
                checkpoint = persistence.new_checkpoint(
                    est.checkpoint, saved, version=gapmf.__version__, resumed=True
                )
            return est._fit(
                X, data, settings, saved.state.rng, checkpoint, saved.state, observed_as=observed_as
            )

    def _check_fit(
        self, X: Any, sample_weight: Any, exposure: Any, observed: Any
    ) -> tuple[FitData, Settings, dict[str, Any]]:
        """Check everything that a fit depends on; also return attributes on how X was observed."""
        check_engine(self.engine)
        if is_out_of_memory(X) or self.engine != "local":
            refuse_options(sample_weight=sample_weight, exposure=exposure, observed=observed)
            return self._check_parted_fit(X)
        counts, observation, mean_total = observe(X, exposure, observed)
        check_all_observed_somewhere(observation, counts.shape[1])
        GammaPoissonMF()._check_names(X, reset=True)  # names that cannot be are said before the fit
        if is_anndata(X):
            warn_of_duplicate_genes(X)
            warn_if_normalised(counts)
        parameters = self.get_params(deep=False) | self._warm_start(counts.shape[1])
        settings = check_settings(parameters, counts)
        self._check_others()
        observed_as: dict[str, Any] = {"mean_total_": mean_total}
        if mean_total is not None:
            observed_as["exposure_"] = "total"
        if observation is not None:
            given = (observation.exposure != 1.0).any() and mean_total is None
            observed_as |= {"exposure_": "given"} if given else {}
            observed_as["n_unobserved_"] = observation.n_unobserved(counts.shape[1])
        data = em_fit.apply_sample_weight(counts, sample_weight, settings, observation)
        return data, settings, observed_as

    def _check_others(self) -> None:
        """Check the parameters that do not change what a fit computes."""
        check_n_jobs(self.n_jobs)
        check_smoothing(self.smoothing)
        check_number(self.precision, "precision", above=0.0)
        check_number(self.prune_tol, "prune_tol", least=0.0)
        check_verbose(self.verbose)
        check_callbacks(self.callbacks)

    def _check_parted_fit(self, X: Any) -> tuple[FitData, Settings, dict[str, Any]]:
        """`_check_fit` for counts that are not in memory."""
        n_features = check_place(X, self.engine)
        GammaPoissonMF()._check_names(X, reset=True)
        if is_anndata(X):
            warn_of_duplicate_genes(X)
        parameters = self.get_params(deep=False) | self._warm_start(n_features)
        refuse_in_memory_only(check_settings(parameters, sp.csr_array((1, n_features))))
        self._check_others()
        engine = open_engine(X, self.engine, self.n_jobs)
        try:
            settings = check_settings(parameters, sp.csr_array(engine.totals[None, :]))
        except BaseException:
            engine.close()
            raise
        return FitData(None, None, engine=engine), settings, {}

    def _warm_start(self, n_features: int) -> dict[str, Any]:
        """Return the parameters that start a fit from the last one, if it is to."""
        if not self.warm_start or not hasattr(self, "model_"):
            return {}
        if self.components_.shape != (self.n_components, n_features):
            raise InvalidInputError(
                f"with warm_start the fit starts from the {self.components_.shape[0]} components "
                f"× {self.components_.shape[1]} features of the last one, but now there are "
                f"{self.n_components} × {n_features}: use warm_start=False"
            )
        alpha = {"alpha": self.alpha_} if self.learn_alpha else {}
        return {"init": self.components_, "n_init": 1} | alpha

    def _fit(
        self,
        X: Any,
        data: FitData,
        settings: Settings,
        rng: np.random.Generator,
        checkpoint: Checkpoint | None,
        resumed: FitState | None = None,
        *,
        observed_as: dict[str, Any],
    ) -> Self:
        """Run the fit, store its result, and warn."""
        bar = fit_bar(
            check_verbose(self.verbose),
            label=f"{settings.algorithm}, K = {settings.alpha.size}",
            max_iter=settings.max_iter,
            prune_tol=self.prune_tol,
            tol=settings.tol,
        )
        with bar as shown:
            result = em_fit.fit(
                data,
                settings,
                rng,
                n_jobs=self.n_jobs,
                callbacks=(*shown, *check_callbacks(self.callbacks)),
                checkpoint=checkpoint,
                resumed=resumed,
            )
        self._check_names(X, reset=True)
        fitted = self._fitted_from(result, data.feature_counts, seed=int(rng.integers(2**63)))
        fitted = dataclasses.replace(fitted, **observed_as)
        self._store(fitted)
        if checkpoint is not None and not result.interrupted:
            persistence.write_finished(checkpoint, fitted)
        for warning in result.warnings:
            warnings.warn(warning.message, warning.category, stacklevel=3)
        return self

    def _fitted_from(self, result: FitResult, feature_counts: Array, seed: int) -> Fitted:
        """Return the fitted attributes that a fit leads to."""
        names = self._names
        log_likelihood, certificate = (None, None) if result.exact is None else result.exact
        return Fitted(
            model_=result.model,
            rank_=int((result.model.shares > self.prune_tol).sum()),
            n_iter_=len(result.history["seconds"]),
            converged_=result.converged,
            history_=result.history,
            feature_counts_=feature_counts,
            seed=seed,
            feature_names_in_=None if names is None else names.astype(str),
            log_likelihood_=log_likelihood,
            certificate_=certificate,
            interrupted_=result.interrupted,
            activations_=result.activations,
            last_gain_=result.last_gain,
            pseudo_count_=result.pseudo_count,
        )

    def _store(self, fitted: Fitted) -> Self:
        """Set the fitted attributes; remove those that an earlier fit left and this one has not."""
        self.model_ = fitted.model_
        self.components_ = fitted.model_.W.T.copy()
        self.alpha_ = fitted.model_.alpha.copy()
        self.rank_, self.n_iter_ = fitted.rank_, fitted.n_iter_
        self.converged_ = fitted.converged_
        self.history_ = fitted.history_
        self.feature_counts_ = fitted.feature_counts_
        self.n_features_in_ = fitted.model_.n_features
        self.interrupted_ = fitted.interrupted_
        self._fitted, self._seed = fitted, fitted.seed
        names = fitted.feature_names_in_
        optional = {
            "feature_names_in_": None if names is None else names.astype(object),
            "log_likelihood_": fitted.log_likelihood_,
            "last_gain_": fitted.last_gain_,
            "certificate_": fitted.certificate_,
            "activations_": fitted.activations_,
            "exposure_": fitted.exposure_,
            "mean_total_": fitted.mean_total_,
        }
        self.n_unobserved_ = fitted.n_unobserved_
        self.pseudo_count_ = fitted.pseudo_count_
        self.log_prior_ = fitted.model_.log_prior(fitted.pseudo_count_)
        for name, value in optional.items():
            if value is not None:
                setattr(self, name, value)
            elif hasattr(self, name):
                delattr(self, name)
        return self

    # Asking about samples. What a sample gets depends on the fitted model, on a seed that `fit`
    # drew, and on its counts: not on the samples beside it, on their order, or on `n_jobs`.

    def transform(self, X: Any, exposure: Any = None, observed: Any = None) -> Array:
        """Compute the posterior mean of each sample's activations, E[h_n | x_n].

        Component k contributes h_nk times its norm to the expected counts, so activations of
        different components have different scales. To cluster, plot or compare samples, use
        `proportions`.

        The result is exact where that is cheap. Otherwise it is the mean of four Gibbs chains per
        sample. They stop when the Monte Carlo error of the sample's activations is below the
        estimator's `precision`, or after 1/precision² sweeps (400 at the default).
        `posterior(X).reliable` is False where the error is not below it. Features that are zero in
        every component are ignored, with a warning: they say nothing about the activations.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts.
        exposure : float, array-like of shape (n_samples,) or "total", default=None
            Exposure of each sample, as in `fit`. If the fit had exposure="total", this is the
            default here, too, with the same scale. If it had other exposures, they must be given.
        observed : array-like or sparse matrix of bool, or "nan", default=None
            Which entries were observed, as in `fit`. None means all.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Activations.

        See Also
        --------
        proportions : The share of each component in the counts of each sample.
        posterior : The same with standard deviations, quantiles and the Monte Carlo error.
        inverse_transform : Expected counts given activations.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]])
        >>> est.transform([[4, 1]]).shape
        (1, 1)
        """
        if is_out_of_memory(X):
            found: Array = self._in_blocks("transform", X, exposure, observed)
            return found
        return self._posterior(X, "transform", exposure=exposure, observed=observed).mean

    def proportions(self, X: Any, exposure: Any = None, observed: Any = None) -> Array:
        """Compute the expected share of each component in the counts of each sample.

        Rows sum to 1. Proportions do not depend on how the components are scaled, so use them to
        cluster, plot and compare samples. A sample without counts gets the components' shares of
        all expected counts.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of these samples, as in `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Proportions.

        See Also
        --------
        transform : Activations, from which expected counts can be computed.

        Examples
        --------
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(2, random_state=0).fit(X)
        >>> est.proportions(X[:2]).sum(axis=1).round(12)
        array([1., 1.])
        """
        if is_out_of_memory(X):
            shares: Array = self._in_blocks("proportions", X, exposure, observed)
            return shares
        found = self._posterior(X, "proportions", exposure=exposure, observed=observed)
        return found.proportions

    def _in_blocks(self, name: str, X: Any, exposure: Any, observed: Any) -> Any:
        """Apply a method to counts that are not in memory."""
        X = self._check_blocks(X, exposure, observed)
        width = None if name == "score_samples" else self.model_.n_components
        return apply_to_blocks(self, name, X, width)

    def _check_blocks(self, X: Any, exposure: Any, observed: Any) -> Any:
        """Return counts in blocks, or a Dask collection, whose features are those of the model."""
        check_is_fitted(self, "model_")
        refuse_options(exposure=exposure, observed=observed)
        if self._own_exposure(None) is not None:
            raise InvalidInputError("the fit had exposures, so X must be in memory")
        self._check_names(X, reset=False)
        return as_blocks(X) or X

    def posterior(
        self,
        X: Any,
        quantiles: Sequence[float] = (0.05, 0.95),
        *,
        n_draws: int = 0,
        precision: float | None = None,
        careful: bool = False,
        exposure: Any = None,
        observed: Any = None,
    ) -> Posterior:
        """Compute mean, standard deviation and quantiles of each activation given the counts.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts.
        quantiles : sequence of float, default=(0.05, 0.95)
            Levels of the quantiles, between 0 and 1.
        n_draws : int, default=0
            Number of posterior draws to return, at most 1024.
        precision : float, default=None
            Target for the Monte Carlo error of a sample's means, relative to the Euclidean norm of
            these means. It may be missed: see the parameter `precision` of the estimator, which is
            the value if None.
        careful : bool, default=False
            Whether to run many short chains per sample, from guided starts, until the error is
            0.5 %. `precision` is then ignored. This takes about a hundred times as long. Use it
            when α is very small, because the posterior then may have several modes.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of these samples, as in `transform`.

        Returns
        -------
        Posterior
            With `mean`, `std`, `quantiles`, `draws`, `proportions`, `proportions_std`, `exact`,
            `error` and `reliable`.

        See Also
        --------
        transform : The mean alone.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> found = est.posterior([[4, 1]], quantiles=[0.5])
        >>> found.mean.shape, found.quantiles.shape
        ((1, 1), (1, 1, 1))
        """
        options = {"quantiles": quantiles, "n_draws": n_draws, "careful": careful}
        how = {"exposure": exposure, "observed": observed}
        return self._posterior(X, "posterior", precision, **how, **options)

    def recommend(
        self,
        X: Any,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        exposure: Any = None,
        observed: Any = None,
    ) -> Recommendations:
        """Choose the features with the highest expected counts in each sample, given its counts.

        If samples are users and features are items, these are recommendations. The expected
        counts are `transform(X) @ components_`, times the exposures if there are any, computed in
        blocks of samples. A sample without counts gets the features with the highest expected
        counts overall.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts.
        n : int, default=10
            Number of features per sample.
        exclude_seen : bool, default=True
            Whether to leave out features that have counts in the sample.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of these samples, as in `transform`.

        Returns
        -------
        Recommendations
            With `items` and `expected`, both of shape (n_samples, n), the highest expected count
            first. Features whose expected count is 0 are left out. If fewer than n are left,
            the rest of the row is -1 and nan.

        See Also
        --------
        transform : The activations that the expected counts come from.
        inverse_transform : All expected counts given activations.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1, 0], [0, 2, 2], [3, 1, 1]])
        >>> est.recommend([[0, 3, 0], [0, 0, 0]], n=2).items
        array([[0, 2],
               [0, 1]])
        """
        n = check_whole(n, "n")
        counts, model, observation = self._check_observed_samples(X, exposure, observed)
        known = self._only_known(counts)
        H = self._posterior_of(known, model, "recommend", None, observation).mean
        H[np.diff(known.indptr) == 0] = self.model_.alpha / self.model_.beta
        if observation is not None:
            H *= observation.exposure[:, None]
        with progress_bar(self.verbose, "recommend") as progress:
            items, expected = recommend(
                H,
                self.model_.W,
                n,
                counts if exclude_seen else None,
                n_jobs=self.n_jobs,
                progress=progress,
            )
        return Recommendations(items, expected, self._names)

    def _posterior(
        self,
        X: Any,
        label: str,
        precision: float | None = None,
        *,
        exposure: Any = None,
        observed: Any = None,
        **options: Any,
    ) -> Posterior:
        """Return the posterior of activations; counts that no component has are left out."""
        counts, model, observation = self._check_observed_samples(X, exposure, observed)
        known = self._only_known(counts)
        return self._posterior_of(known, model, label, precision, observation, **options)

    def _only_known(self, counts: sp.csr_array) -> sp.csr_array:
        """Leave out counts of features that no component has, with a warning."""
        known = np.asarray(self.model_.W.any(axis=1))
        if known[counts.indices].all():
            return counts
        warnings.warn(describe_unknown(counts, known, self._names), UserWarning, stacklevel=4)
        return only_features(counts, known)

    def _posterior_of(
        self,
        counts: sp.csr_array,
        model: GaP,
        label: str,
        precision: float | None = None,
        observation: Observation | None = None,
        **options: Any,
    ) -> Posterior:
        """Return the posterior of activations given checked counts."""
        precision = self.precision if precision is None else precision
        with progress_bar(self.verbose, label, shorter="a larger precision") as progress:
            found = posterior_of(
                counts,
                model,
                precision=precision,
                random_state=self._seed,
                n_jobs=self.n_jobs,
                progress=progress,
                observation=observation,
                **{"quantiles": ()} | options,
            )
        apart = int((found.error > FAR_APART * precision).sum())
        if apart and not options.get("careful"):
            warnings.warn(
                f"the chains of {apart:,} of {counts.shape[0]:,} samples disagree by more than "
                f"{FAR_APART} times the precision of {precision:g}: there may be several ways to "
                "explain these samples, or components that are almost the same; "
                "in Python, est.posterior(X).error has the errors, and careful=True takes "
                "longer to find all ways",
                UserWarning,
                stacklevel=4,
            )
        return found

    def log_likelihood(
        self,
        X: Any,
        *,
        precision: float | None = 1e-4,
        method: str = "auto",
        total_only: bool = False,
        exposure: Any = None,
        observed: Any = None,
    ) -> LogLikelihood:
        """Compute log p(X | W) with its standard error.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts.
        precision : float or None, default=1e-4
            Target for the standard error of the total, in nats per token. The time grows with its
            inverse square. It may not be reached, for example if X has only a few short samples.
            If None, each sample is computed as by `log_marginal_likelihood` without `precision`.
        method : str, default="auto"
            One of the methods of `log_marginal_likelihood`. Only "auto" uses `precision`.
        total_only : bool, default=False
            Whether you need only the total. It may then be estimated from a random part of the
            samples. If so, `method` of the result says it, and the values of the other samples are
            nan.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of these samples, as in `transform`.

        Returns
        -------
        LogLikelihood
            With `total`, `std_error`, and the values of the samples.

        See Also
        --------
        gapmf.log_marginal_likelihood : The same for any model, without smoothing.
        score : The mean over samples.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> ll = est.log_likelihood([[4, 1], [0, 0]])
        >>> ll.std_error, ll.methods.tolist()
        (0.0, ['enumerate', 'enumerate'])
        """
        if is_out_of_memory(X) and not is_dask(X):
            return log_likelihood_of_blocks(
                self.log_likelihood,
                self._check_blocks(X, exposure, observed),
                precision,
                method=method,
                total_only=total_only,
            )
        counts, model, observation = self._check_observed_samples(X, exposure, observed)
        with progress_bar(self.verbose, "score", shorter="a larger precision") as progress:
            if total_only and precision is not None and method == "auto":
                found = total_log_likelihood(
                    counts,
                    model,
                    check_number(precision, "precision", above=0.0),
                    seed=self._seed,
                    n_jobs=self.n_jobs,
                    max_cost=MAX_COST,
                    progress=progress,
                    observation=observation,
                )
            else:
                found = log_likelihood_of(
                    counts,
                    model,
                    method,
                    precision=precision if method == "auto" else None,
                    random_state=self._seed,
                    n_jobs=self.n_jobs,
                    progress=progress,
                    observation=observation,
                )
        if not self.smoothing and bool((found.per_sample == -np.inf).any()):
            warnings.warn(
                "some samples have counts of features that had none in the fit, so their "
                "log-likelihood is −inf: for a finite one set smoothing, for example "
                "est.set_params(smoothing=1e-3); the fit stays as it is",
                UserWarning,
                stacklevel=2,
            )
        return found

    def score_samples(self, X: Any, exposure: Any = None, observed: Any = None) -> Array:
        """Compute the log-likelihood of each sample, log p(x_n | W).

        The value of a sample does not depend on the samples beside it. Where it is not exact, it
        is uncertain by about half a nat; ``log_likelihood(X, precision=None)`` takes longer, and
        has error bars.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of these samples, as in `transform`.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats.

        See Also
        --------
        log_likelihood : The same with error bars.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.score_samples([[4, 1], [0, 0]]).shape
        (2,)
        """
        if is_out_of_memory(X):
            values: Array = self._in_blocks("score_samples", X, exposure, observed)
            return values
        found = self.log_likelihood(X, precision=math.inf, exposure=exposure, observed=observed)
        return found.per_sample

    def score(self, X: Any, y: Any = None, exposure: Any = None, observed: Any = None) -> float:
        """Compute the mean log-likelihood per sample, for comparing fits.

        The target for its Monte Carlo error is that of `log_likelihood`: a standard error of 1e-4
        nats per token. If a random part of the samples is enough for this, the others are not
        computed.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts.
        y : None, default=None
            Ignored.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of these samples, as in `transform`.

        Returns
        -------
        float
            The mean of log p(x_n | W), in nats.

        See Also
        --------
        log_likelihood : The total, with its standard error.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.score([[4, 1]]) < est.score([[0, 0]]) < 0
        True
        """
        if is_dask(X):
            return mean_log_likelihood(self, self._check_blocks(X, exposure, observed))
        found = self.log_likelihood(X, total_only=True, exposure=exposure, observed=observed)
        return found.total / found.per_sample.size

    def standard_errors(
        self, X: Any, *, method: str = "auto", n_draws: int = 256
    ) -> StandardErrors:
        """Compute standard errors of the components, from the observed information.

        They say how far `components_` may be from the true W, if the number of components is
        right and the fit is at its maximum. α and β are treated as known. If α was learned, the
        errors are therefore too small, and a warning says so. Entries that are zero, or that
        explain less than one expected count, get NaN. The errors of all other entries are computed
        as if those were exactly zero. After a fit with `pseudo_count`, exposures or unobserved
        entries, this method raises an error.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The counts of the fit.
        method : {"auto", "exact", "sampled"}, default="auto"
            How posterior moments are computed. "exact" is for few components. "sampled" uses
            draws of four Gibbs chains per sample. "auto" uses draws only where exact moments are
            too costly.
        n_draws : int, default=256
            Number of draws per chain. More draws are needed when components overlap.

        Returns
        -------
        StandardErrors
            With `components`, `norms` and `intervals()`. If W has up to 3,000 positive entries,
            the whole information matrix is inverted. If it has more, only the block of each
            feature is inverted: the errors are then too small, and `complete` is False.

        See Also
        --------
        stability : How reliably components are found again from other seeds or bootstrap samples.

        Examples
        --------
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
        >>> found = est.standard_errors(X)
        >>> found.components.shape, found.norms.shape, found.method
        ((2, 4), (2,), 'exact')
        """
        counts, _ = self._check_samples(X)
        check_option(method, ("auto", "exact", "sampled"), "method")
        check_whole(n_draws, "n_draws", least=2)
        if self.pseudo_count_:
            raise InvalidInputError(
                f"the fit has pseudo_count {self.pseudo_count_:.3g}, so it is no maximum of the "
                "likelihood, which standard errors are for: use pseudo_count=0, or see how much "
                'components vary by est.stability(X, by="bootstrap")'
            )
        if self.learn_alpha:
            warnings.warn(
                "α was learned, but standard errors take it as known, so they are too small: "
                'est.stability(X, by="bootstrap") shows how much components vary in all',
                UserWarning,
                stacklevel=2,
            )
        with progress_bar(self.verbose, "standard errors", shorter="fewer n_draws") as progress:
            return standard_errors(
                counts,
                self.model_,
                method=method,
                n_draws=n_draws,
                seed=self._seed,
                n_jobs=self.n_jobs,
                progress=progress,
            )

    def _check_samples(self, X: Any) -> tuple[sp.csr_array, GaP]:
        """Return checked counts, and the smoothed model, for questions that take no exposures."""
        self._refuse_observed_fit()
        counts, model, _ = self._check_observed_samples(X, None, None)
        return counts, model

    def _check_observed_samples(
        self, X: Any, exposure: Any, observed: Any
    ) -> tuple[sp.csr_array, GaP, Observation | None]:
        """Return checked counts, the smoothed model that they are asked of, and how observed."""
        check_is_fitted(self, "model_")
        check_n_jobs(self.n_jobs)
        counts, observation, _ = observe(
            X,
            self._own_exposure(exposure),
            observed,
            mean_total=self._mean_total,
            n_features=self.n_features_in_,
            owner=type(self).__name__,
        )
        self._check_names(X, reset=False)
        weight = check_smoothing(self.smoothing)
        return counts, self.model_.smoothed(self.feature_counts_, weight), observation

    def _refuse_observed_fit(self) -> None:
        """Refuse questions about a fit with exposures or unobserved entries that ignore them."""
        if getattr(self, "exposure_", None) is not None or self.n_unobserved_:
            raise InvalidInputError(
                "standard errors take neither exposures nor unobserved entries, and the fit had "
                'them: est.stability(X, by="bootstrap", exposure=…, observed=…) shows how much '
                "components vary"
            )

    def _check_names(self, X: Any, *, reset: bool) -> None:
        """Set the names of the features from X, or compare them with those of the fit."""
        try:
            named = with_feature_names(feature_frame(X))
            validate_data(self, named, reset=reset, skip_check_array=True)
        except ValueError as error:
            advice = f"{MATCH_GENES}, in any order" if is_anndata(X) else ""
            raise InvalidInputError(f"{str(error).rstrip()}\n{advice}".rstrip()) from None

    # Asking about the model.

    def inverse_transform(self, X: Any) -> Array:
        """Compute expected counts given activations, H Wᵀ.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Activations, as from `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Expected counts.

        See Also
        --------
        transform : Activations given counts.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.inverse_transform([[2.0]]).shape
        (1, 2)
        """
        check_is_fitted(self, "model_")
        H = as_float(X, "X", "activations, samples × components")
        check_entries(H, "X")
        if H.ndim != 2 or H.shape[1] != self.model_.n_components:
            raise InvalidInputError(
                f"X must have shape (n, {self.model_.n_components}), samples × components, but "
                f"has shape {H.shape}"
            )
        return np.asarray(H @ self.components_)

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> NDArray[np.int64]:
        """Draw counts from the fitted model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of samples.
        random_state : int, Generator, RandomState or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of int, of shape (n_samples, n_features)
            Counts.

        See Also
        --------
        gapmf.GaP.sample : The same for any model, with other forms and the latent variables.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.sample(4, random_state=0).shape
        (4, 2)
        """
        check_is_fitted(self, "model_")
        return self.model_.sample(n_samples, random_state=random_state)

    def top_features(
        self, n: int = 10, *, by: str = "distinctive", names: Sequence[Any] | None = None
    ) -> list[list[tuple[Any, float]]]:
        """List the features that tell what each component is about, with their weights.

        By default, features that are clearly more frequent in the component than in the other
        components together come first. Words like "the" and housekeeping genes have large weights
        in every component, so they come late. Rare features do not come first by chance.

        Parameters
        ----------
        n : int, default=10
            Number of features per component. Features with weight zero are left out.
        by : {"distinctive", "weight"}, default="distinctive"
            "distinctive" takes the ratio of a feature's frequency in the component to that in the
            others. It orders features by the logarithm of this ratio, divided by its standard
            error. Features that are not more frequent than in the others follow, ordered by
            weight. With one component, all features are ordered by weight. "weight" puts the
            largest weights first.
        names : sequence of length n_features, default=None
            Names of the features. By default, those of the fitted data frame, or column numbers.

        Returns
        -------
        list of lists of (name, weight)
            One list per component. The weight is the feature's share of the component.

        See Also
        --------
        rank_report : What each component is worth.

        Examples
        --------
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> [(name, round(weight, 2)) for name, weight in est.top_features(names=["a", "b"])[0]]
        [('a', 0.8), ('b', 0.2)]
        """
        check_is_fitted(self, "model_")
        if names is None:
            names = self._names
        return top_features(self.model_, self.feature_counts_, n, by=by, names=names)

    def predictive_check(
        self, X: Any, n_replicates: int = 199, *, exposure: Any = None, random_state: Any = None
    ) -> PredictiveCheck:
        """Measure whether data look like draws from the fitted model, and report what differs.

        Statistics of X are compared with those of data drawn from the model: totals of samples,
        the share of zeros, the over-dispersion of features, the largest counts, and the spread of
        counts around their expected values. The result prints as a table, with p-values, and
        says what to change; `plot` draws it. If X is large, a random part of its samples is
        checked, so that this takes a small part of the time of a fit.

        If X are the data of the fit, the model was chosen to be near to them, so p-values tend to
        be too large. Features that no component has are ignored, with a warning.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Counts: those of the fit, or others.
        n_replicates : int, default=199
            Number of data sets to draw, at least 199, so that p-values can be 0.01.
        exposure : float, array-like of shape (n_samples,) or "total", default=None
            Exposure of each sample, as in `transform`. The drawn samples have the same exposures.
        random_state : int, Generator, RandomState or None, default=None
            Source of randomness. If None, the seed of the fit, so that the result is always the
            same.

        Returns
        -------
        PredictiveCheck
            With `observed`, `replicates`, `p_values`, `advice` and `plot()`.

        See Also
        --------
        sample : Draw counts from the model.
        rank_report : What each component is worth.

        Examples
        --------
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(2, random_state=0).fit(X)
        >>> est.predictive_check(X).advice
        ['Nothing in these statistics speaks against the model.']
        """
        n_replicates = check_whole(n_replicates, "n_replicates", least=199)
        counts, model, observation = self._check_observed_samples(X, exposure, None)
        if self.n_unobserved_:
            raise InvalidInputError(
                "the fit had unobserved entries, which predictive_check does not take: it compares "
                "totals of all entries"
            )
        rng = check_random_state(self._seed if random_state is None else random_state)
        counts = self._only_known(counts)
        subset = choose_samples(counts, model.n_components, n_replicates, rng)
        some = subset.rows[: subset.n_entries]
        own = None if observation is None else observation.take(some)
        n_draws = min(n_replicates // 2, MAX_DRAWS)
        draws = self._posterior_of(
            counts[some], model, "posterior", None, own, n_draws=n_draws
        ).draws
        with progress_bar(self.verbose, "predictive check") as progress:
            return check_model_fit(
                counts,
                self.model_,
                subset,
                np.asarray(draws),
                n_replicates=n_replicates,
                seed=int(rng.integers(2**63)),
                alpha_learned=bool(self.learn_alpha),
                exposure=None if observation is None else observation.exposure,
                totals_are_exposures=isinstance(self._own_exposure(exposure), str),
                feature_names=self._names,
                n_jobs=self.n_jobs,
                progress=progress,
            )

    def compare(
        self,
        X: Any,
        groups: Any,
        *,
        level: float = 0.95,
        exposure: Any = None,
        observed: Any = None,
    ) -> GroupComparison:
        """Compute how the proportions of the components differ between groups of samples.

        Groups are, for example, batches, donors, journals or years. Their mean proportions have
        intervals for the populations that the samples come from: they include how much the
        samples of a group differ from each other, as well as the posterior uncertainty of each
        sample's proportions. So they say whether groups differ, and not only whether these samples
        do. The samples of a group should be independent: if each donor gave many cells, compare
        donors. With few tokens per sample and components that overlap, expected proportions are
        shrunk towards those of all samples, so differences tend to be too small.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or AnnData of shape (n_samples, n_features)
            Counts. Samples without counts are left out.
        groups : array-like or Series of length n_samples, or str
            Group of each sample; if X is an AnnData, also the name of a column of `X.obs`.
        level : float, default=0.95
            Level of the intervals.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of these samples, as in `transform`.

        Returns
        -------
        GroupComparison
            It prints as a table, and `plot` draws it.

        See Also
        --------
        proportions : The proportions of each sample.
        gapmf.compare_anndata : The same for a layer of an AnnData, with genes matched by name.

        Examples
        --------
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(2, random_state=0).fit(X)
        >>> groups = ["even", "odd"] * 50
        >>> est.compare(X, groups)
        GroupComparison(2 groups, 2 components, 0 differences)
        """
        counts, model, observation = self._check_observed_samples(X, exposure, observed)
        found, level = check_groups(groups, X, counts.shape[0]), check_level(level)
        counts = self._only_known(counts)
        kept = np.flatnonzero(np.diff(counts.indptr))
        found = found._replace(codes=found.codes[kept])
        check_sizes(found)
        some = kept[choose_for_posterior(found, np.random.default_rng(self._seed))]
        own = [None if observation is None else observation.take(rows) for rows in (kept, some)]
        shares = self._posterior_of(counts[kept], model, "proportions", None, own[0]).proportions
        spread = self._posterior_of(counts[some], model, "posterior", None, own[1], n_draws=1)
        variances = np.full_like(shares, np.nan)
        variances[np.searchsorted(kept, some)] = spread.proportions_std**2
        return compare_groups(
            shares,
            variances,
            found,
            level=level,
            n_without_counts=counts.shape[0] - kept.size,
            labels=tuple(component_labels(self.model_, self.feature_counts_, self._names)),
        )

    # Asking how many components there are, and how surely.

    def rank_report(
        self,
        X: Any,
        X_test: Any = None,
        *,
        criterion: str = "prediction",
        exposure: Any = None,
        observed: Any = None,
        exposure_test: Any = None,
        observed_test: Any = None,
    ) -> RankReport:
        """Report what each component is worth, and how many are worth keeping.

        First, each component alone is removed and the others are refitted briefly. The report
        says how much log-likelihood this costs. Then components are removed one at a time, small
        and cheap ones first. With held-out data, a component stays removed if the log-likelihood
        of these data is then within two standard errors of that of the best model so far. With
        BIC, it stays removed if this costs less log-likelihood than BIC's price of a component.

        With criterion="prediction", the report describes a new fit to four fifths of the counts,
        with components in the same order. It may take longer than the fit.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The counts of the fit.
        X_test : array-like, sparse matrix or data frame, default=None
            Held-out samples that decide, by their log-likelihood. Features without counts in X
            are ignored.
        criterion : {"prediction", "bic"}, default="prediction"
            What decides without `X_test`. "prediction" holds out a random fifth of the counts of
            each sample and predicts it from the rest; given the activations, the two parts are
            independent. "bic" subtracts ½ log N per parameter, which is often too strict when
            there are many features.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of the fit.
        exposure_test, observed_test : array-like or str, default=None
            Exposures and observed entries of `X_test`. After a fit with exposure="total", totals
            are the default.

        Returns
        -------
        RankReport
            It prints as a table.

        See Also
        --------
        prune : A fit with the components that the report keeps.
        gapmf.select_rank : Compare fits with several numbers of components.

        Examples
        --------
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, n_samples=60, random_state=0)
        >>> est = GammaPoissonMF(3, algorithm="exact", random_state=0).fit(X)
        >>> est.rank_report(X).rank
        2
        """
        check_option(criterion, CRITERIA, "criterion")
        counts, settings, rng, observation = self._check_question(X, exposure, observed)
        test, own = None, None
        if X_test is not None:
            test, own, _ = observe(
                X_test,
                self._own_exposure(exposure_test),
                observed_test,
                mean_total=self._mean_total,
                n_features=self.n_features_in_,
            )
        elif exposure_test is not None or observed_test is not None:
            raise InvalidInputError("exposure_test and observed_test are for X_test, which is None")
        with progress_bar(self.verbose, "rank report", shorter="fewer samples") as progress:
            return make_report(
                self.model_,
                counts,
                settings,
                X_test=test,
                bic=criterion == "bic",
                seed=int(rng.integers(2**63)),
                n_jobs=self.n_jobs,
                feature_names=self._names,
                progress=progress,
                observation=observation,
                observation_test=own,
            )

    def prune(
        self,
        X: Any,
        X_test: Any = None,
        *,
        criterion: str = "prediction",
        report: RankReport | None = None,
        exposure: Any = None,
        observed: Any = None,
        exposure_test: Any = None,
        observed_test: Any = None,
    ) -> Self:
        """Fit again with the components that the rank report keeps.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The counts of the fit.
        X_test : array-like, sparse matrix or data frame, default=None
            Held-out samples, for the report.
        criterion : {"prediction", "bic"}, default="prediction"
            What decides without `X_test`, as in `rank_report`.
        report : RankReport, default=None
            A report that was made before, to save the time.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of the fit.
        exposure_test, observed_test : array-like or str, default=None
            Exposures and observed entries of `X_test`. After a fit with exposure="total", totals
            are the default.

        Returns
        -------
        GammaPoissonMF
            A new, fitted estimator.

        See Also
        --------
        rank_report : The report that decides.

        Examples
        --------
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, n_samples=60, random_state=0)
        >>> est = GammaPoissonMF(3, algorithm="exact", random_state=0).fit(X)
        >>> est.prune(X).components_.shape
        (2, 4)
        """
        check_is_fitted(self, "model_")
        exposure = self._own_exposure(exposure)
        if report is None:
            report = self.rank_report(
                X,
                X_test,
                criterion=criterion,
                exposure=exposure,
                observed=observed,
                exposure_test=exposure_test,
                observed_test=observed_test,
            )
        pruned: Self = fit_from(self, X, report.model, exposure=exposure, observed=observed)
        return pruned

    def stability(
        self,
        X: Any,
        n_fits: int = 10,
        *,
        by: str = "seeds",
        n_features: int = 10,
        exposure: Any = None,
        observed: Any = None,
    ) -> Stability:
        """Measure how reliably each component is found again when the fit is repeated.

        After Ctrl-C, the fits that are finished are compared.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The counts of the fit.
        n_fits : int, default=10
            Number of fits.
        by : {"seeds", "bootstrap"}, default="seeds"
            "seeds" fits the same counts from other seeds: it shows how much depends on which
            maximum a fit reaches. "bootstrap" fits samples drawn with replacement: it also shows
            how much depends on the data. Fits start from `init`, or from "mean" if `init` is an
            array.
        n_features : int, default=10
            Number of features per component, the most distinctive first, that get intervals.
        exposure, observed : array-like or str, default=None
            Exposures and observed entries of the fit.

        Returns
        -------
        Stability
            It prints as a table.

        See Also
        --------
        rank_report : What each component is worth.

        Examples
        --------
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
        >>> bool((est.stability(X, n_fits=2).returned > 0.9).all())
        True
        """
        check_option(by, ("seeds", "bootstrap"), "by")
        counts, _, rng, observation = self._check_question(X, exposure, observed)
        n_fits = check_whole(n_fits, "n_fits", least=2)
        models: list[GaP] = []
        try:
            with progress_bar(self.verbose, "stability", shorter="a smaller n_fits") as move:

                def show(record: Iteration) -> None:
                    # A fit takes about as many iterations as the given one.
                    part = min(record.iteration / self.n_iter_, 1.0)
                    if move is not None:
                        move((len(models) + part) / n_fits)

                while len(models) < n_fits:
                    rows = np.arange(counts.shape[0])
                    if by == "bootstrap":
                        rows = rng.integers(rows.size, size=rows.size)
                    again = fit_copy(
                        self,
                        counts[rows],
                        observed=None if observation is None else observation.take(rows),
                        random_state=int(rng.integers(2**31)),
                        init=self.init if isinstance(self.init, str) else "mean",
                        callbacks=[show],
                        verbose=0,
                    )
                    models.append(again.model_)
        except KeyboardInterrupt:
            if len(models) < 2:
                raise
            warnings.warn(
                f"stopped: the comparison is with {len(models)} of {n_fits} fits",
                UserWarning,
                stacklevel=2,
            )
        return compare(
            self.model_,
            models,
            check_whole(n_features, "n_features"),
            self.feature_counts_,
            feature_names=self._names,
        )

    def _check_question(
        self, X: Any, exposure: Any = None, observed: Any = None
    ) -> tuple[sp.csr_array, Settings, np.random.Generator, Observation | None]:
        """Return counts, settings and a generator for questions about a fit that was made."""
        check_is_fitted(self, "model_")
        exposure = self._own_exposure(exposure)
        if observed is None and self.n_unobserved_:
            raise InvalidInputError(
                f"the fit had {self.n_unobserved_:,} unobserved entries, so this question needs "
                "them: pass the observed=… of the fit"
            )
        counts, observation, _ = observe(
            X, exposure, observed, mean_total=self._mean_total, n_features=self.n_features_in_
        )
        parameters = self.get_params(deep=False) | {"pseudo_count": self.pseudo_count_}
        settings = check_settings(parameters, counts)
        check_n_jobs(self.n_jobs)
        return counts, settings, check_random_state(self.random_state), observation

    def _own_exposure(self, exposure: Any) -> Any:
        """Return exposures, or the default that the fit left."""
        fitted_with = getattr(self, "exposure_", None)
        if exposure is None and fitted_with == "given":
            raise InvalidInputError(
                "the fit had exposures, so these samples need theirs: pass exposure=…, one number "
                "for each sample, or exposure=1 if they are all 1"
            )
        return "total" if exposure is None and fitted_with == "total" else exposure

    @property
    def _mean_total(self) -> float | None:
        return getattr(self, "mean_total_", None)

    @property
    def _names(self) -> Any:
        return getattr(self, "feature_names_in_", None)

    # Files.

    def save(self, path: Any) -> None:
        """Write the fitted estimator to one file, at exactly that path.

        All parameters are kept except `callbacks`, `checkpoint` and a `random_state` that is
        not a number. The new file is complete before it replaces an existing one.

        Parameters
        ----------
        path : str or path
            The file to write.

        See Also
        --------
        load : Read the file.

        Examples
        --------
        >>> import os, tempfile
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     est.save(os.path.join(folder, "counts.gapmf"))
        ...     again = GammaPoissonMF.load(os.path.join(folder, "counts.gapmf"))
        >>> bool((again.components_ == est.components_).all())
        True
        """
        check_is_fitted(self, "model_")
        parameters = self.get_params(deep=False)
        # Names may have been set after the fit, as the command line does.
        names = self._names
        names = None if names is None else np.asarray(names).astype(str)
        fitted = dataclasses.replace(self._fitted, feature_names_in_=names)
        persistence.write_model(path, parameters, fitted, version=gapmf.__version__)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read an estimator from the file that `save` wrote.

        It gives the same answers as the one that was saved, bit for bit.

        Parameters
        ----------
        path : str or path
            The file to read.

        Returns
        -------
        GammaPoissonMF
            The fitted estimator.

        See Also
        --------
        save : Write the file.

        Examples
        --------
        >>> import os, tempfile
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     est.save(os.path.join(folder, "counts.gapmf"))
        ...     again = GammaPoissonMF.load(os.path.join(folder, "counts.gapmf"))
        >>> again.n_components
        1
        """
        parameters, fitted = persistence.read_model(path)
        with persistence.conversion(path):
            est = cls(**parameters)
        return est._store(fitted)

    # What scikit-learn asks for.

    @property
    def _n_features_out(self) -> int:
        """The number of columns that `transform` gives, for their names."""
        return self.model_.n_components

    def __sklearn_clone__(self) -> Any:
        """Copy the parameters; a client is no value, and stays the same."""
        without = copy.copy(self)
        without.engine = "local"
        clone: Any = BaseEstimator.__sklearn_clone__(without)
        clone.engine = self.engine
        return clone

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def fit_copy(
    estimator: GammaPoissonMF, X: Any, *, exposure: Any = None, observed: Any = None, **changes: Any
) -> Any:
    """Fit a copy of an estimator with other parameters; Ctrl-C ends the caller, too.

    The copy has no checkpoint: that file belongs to the estimator's own fit.
    """
    with warnings.catch_warnings():  # an interrupted copy is not given to anybody
        warnings.filterwarnings("ignore", ".* was interrupted after", ConvergenceWarning)
        copy = clone(estimator).set_params(checkpoint=None, **changes)
        copy.fit(X, exposure=exposure, observed=observed)
    if copy.interrupted_:
        raise KeyboardInterrupt
    return copy


def fit_from(
    estimator: GammaPoissonMF, X: Any, model: GaP, *, exposure: Any = None, observed: Any = None
) -> Any:
    """Fit a copy of an estimator from a model of any rank, α and β included."""
    components = model.W.T.copy()
    given = {"alpha": model.alpha, "beta": model.beta, "init": components, "n_init": 1}
    return fit_copy(
        estimator, X, exposure=exposure, observed=observed, n_components=model.n_components, **given
    )
