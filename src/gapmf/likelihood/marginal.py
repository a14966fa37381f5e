"""The marginal likelihood log p(V | W, β), and the choice of a method for each sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.csr import distinct_rows, take_block
from gapmf.distributions import log_one_plus
from gapmf.errors import InvalidInputError
from gapmf.likelihood import chib, exact, importance, planning, reverse, smc
from gapmf.likelihood.planning import EXACT_METHODS, MAX_COST
from gapmf.likelihood.result import Estimates, LogLikelihood, expand_distinct
from gapmf.model import GaP, check_model
from gapmf.observation import Observation, check_observation
from gapmf.parallel import Progress, check_n_jobs, for_each, part_of
from gapmf.types import Array, Index
from gapmf.validation import check_number, check_option, check_random_state, check_whole

COMPARISON_PRECISION = 1e-4  # nats per token: far below what a component is worth


# Modules with check_particles(n_particles, K), which returns the size of an estimate,
# predict_cost(rows, K, size), and log_factors(rows, model, seed, size, n_jobs, rates=rates).
ESTIMATORS: dict[str, Any] = {
    "smc": smc,
    "importance": importance,
    "reverse": reverse,
    "chib": chib,
}
METHODS = (*EXACT_METHODS, *ESTIMATORS)
_IMPOSSIBLE = -1  # instead of an index of METHODS


def log_marginal_likelihood(
    X: Any,
    model: GaP,
    method: str = "auto",
    *,
    precision: float | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    n_particles: int | None = None,
    escalate: bool = True,
    max_cost: float = MAX_COST,
    progress: Progress | None = None,
    exposure: Any = None,
    observed: Any = None,
) -> LogLikelihood:
    """Compute log p(X | W) of counts, with its standard error: Eqs. 7, 8, 26, 27 and 31.

    This is the log-likelihood of counts under a model, with the activations integrated out [1]_.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts. In the paper, X is Vᵀ.
    model : GaP
        The model.
    method : str, default="auto"
        How to compute the likelihood of each sample.

        - "auto": the cheapest exact method if it needs a tenth of a second or less, else "smc".
        - "enumerate": exact, the paper's sum over all ways to assign counts to components.
        - "polynomial": exact, the same sum with its terms collected by how many counts each
          component gets.
        - "quadrature": exact, an integral over the simplex.
        - "smc": sequential Monte Carlo over the tokens [2]_, for any size.
        - "reverse": conditional "smc" around posterior draws [3]_, biased upwards where the
          other estimates are biased downwards.
        - "importance": importance sampling of activations, for up to about ten components. The
          tail of the weights is checked as in [4]_.
        - "chib": Chib's identity at a fixed point [5]_ in its unbiased form [6]_, for few
          components.
        - "estimate": "auto" without the exact methods.
    precision : float or None, default=None
        For "auto": a target for the standard error of the total, in nats per token. Samples are
        then computed exactly where that is cheaper than an estimate. The others get a coarse
        estimate, and a better one if the total is not precise enough. The target may not be
        reached, for example if X has only a few short samples. If None, the value of each sample
        is precise, not only the total: it is computed exactly where `method` says so, and
        otherwise with `n_particles` particles (more if `escalate`).
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness of the estimates. The estimate of a sample depends on it and on the
        counts of this sample alone.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning. The result does not depend on it.
    n_particles : int or None, default=None
        Size of an estimate: number of particles of "smc" (default 288 for up to 17 components,
        1440 for 40) in four independent groups, points of "importance" (1024), chains of
        "chib" (128), or particles of "reverse" (512 for up to 20 components, 1000 for 40) in 16
        runs. The variance falls and the time grows in proportion.
    escalate : bool, default=True
        Whether "smc" uses 2 to 16 times as many particles for samples that need them, as
        decided by a short first run with one eighth of the particles.
    max_cost : float, default=1e12
        Limit of the predicted number of operations, about a nanosecond each, over all distinct
        samples. Samples that get more particles take up to 16 times as long as predicted.
    progress : callable, default=None
        Called now and then with the part of the work that is done, from 0 to 1.
    exposure : float or array-like of shape (n_samples,), default=None
        Exposure of each sample: s_n > 0 in x_nf ~ Poisson(s_n [W h_n]_f). None means 1.
    observed : array-like or sparse matrix of bool of shape (n_samples, n_features), default=None
        True where an entry was observed. Counts of other entries are ignored. None means that
        all entries were observed.

    Returns
    -------
    LogLikelihood
        Values and error bars. Samples that the model cannot produce have −inf and the method
        "impossible".

    Raises
    ------
    TooCostlyError
        If the predicted cost exceeds `max_cost`, or the memory 2 GiB per thread. With the
        default limit, method="quadrature" computes a sample of 5,000 counts at 3 components.

    See Also
    --------
    split_marginal_cost : Split the value into data term and penalty.
    perplexity : Score a model per token.
    GammaPoissonMF.log_likelihood : Score a fitted estimator.

    Notes
    -----
    In the notation of the paper, this is log p(V | W, β) = −C_ML, with V the transpose of X.

    Estimates of p(v), and of 1/p(v) by "reverse", are unbiased. So the logarithm is too small on
    average, by half the relative variance. This is added; see `LogLikelihood.corrections`.

    References
    ----------
    .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
       Gamma-Poisson Matrix Factorization", ICML, 2018.
    .. [2] A. Doucet, N. de Freitas and N. Gordon (eds.), "Sequential Monte Carlo Methods in
       Practice", Springer, 2001.
    .. [3] C. Andrieu, A. Doucet and R. Holenstein, "Particle Markov Chain Monte Carlo Methods",
       Journal of the Royal Statistical Society B 72(3), 2010.
    .. [4] A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto Smoothed Importance
       Sampling", Journal of Machine Learning Research 25(72), 2024.
    .. [5] S. Chib, "Marginal Likelihood from the Gibbs Output", Journal of the American
       Statistical Association 90(432), 1995.
    .. [6] I. Murray and R. Salakhutdinov, "Evaluating Probabilities under High-dimensional
       Latent Variable Models", NIPS 21, 2009.

    Examples
    --------
    >>> from gapmf import GaP, log_marginal_likelihood
    >>> model = GaP([[3.0, 0.5], [1.0, 2.0]])
    >>> ll = log_marginal_likelihood([[4, 1], [0, 0]], model)
    >>> round(ll.total, 6), ll.std_error
    (-6.974131, 0.0)
    """
    check_model(model)
    counts, observation = check_observation(
        check_counts(X, n_features=model.n_features), exposure, observed
    )
    return log_likelihood_of(
        counts,
        model,
        method,
        precision=precision,
        random_state=random_state,
        n_jobs=n_jobs,
        n_particles=n_particles,
        escalate=escalate,
        max_cost=max_cost,
        progress=progress,
        observation=observation,
    )


def log_likelihood_of(
    counts: sp.csr_array,
    model: GaP,
    method: str = "auto",
    *,
    precision: float | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    n_particles: int | None = None,
    escalate: bool = True,
    max_cost: float = MAX_COST,
    progress: Progress | None = None,
    observation: Observation | None = None,
) -> LogLikelihood:
    """Compute `log_marginal_likelihood` of canonical counts of observed entries."""
    method = check_option(method, ("auto", *METHODS, "estimate"), "method")
    check_n_jobs(n_jobs)
    max_cost = check_number(max_cost, "max_cost", above=0.0)
    if precision is not None:
        precision = check_number(precision, "precision", above=0.0)
        if method != "auto" or n_particles is not None:
            raise InvalidInputError(
                'precision is for method="auto" without n_particles: leave one of them out'
            )
    if method not in EXACT_METHODS:
        size = ESTIMATORS.get(method, smc).check_particles(n_particles, model.n_components)
    else:
        size = 0 if n_particles is None else check_whole(n_particles, "n_particles")
    seed = check_random_state(random_state).integers(2**64, dtype=np.uint64)
    first, inverse = distinct_rows(counts, None if observation is None else observation.keys())
    rows = counts[first]
    N = first.size
    own = None if observation is None else observation.take(first)
    rates = None if own is None else own.unit_rates(model)
    coarse = precision is not None
    which, tasks = _plan(rows, first, model, method, max_cost, size, coarse=coarse)
    chosen = np.flatnonzero(which >= len(EXACT_METHODS))
    half = 1.0 if chosen.size == 0 else 0.1
    values, methods = _exact_factors(
        rows, tasks, model, rates, n_jobs, part_of(progress, 0.0, half)
    )
    zeros = np.zeros(N)
    known = Estimates(
        values, zeros, np.full(N, np.inf), np.ones(N, bool), zeros.copy(), zeros.copy()
    )
    if chosen.size:
        name = METHODS[which[chosen[0]]]
        rest = part_of(progress, half, 1.0)
        some, own_rates = rows[chosen], None if rates is None else rates[chosen]
        if precision is not None:
            target = precision * float(counts.sum())
            times = np.bincount(inverse, minlength=N)[chosen].astype(float)
            found = smc.log_factors_to(some, model, seed, target, times, n_jobs, rest, own_rates)
        elif name == "smc":
            found = smc.log_factors(some, model, seed, size, n_jobs, escalate, rest, own_rates)
        else:
            found = ESTIMATORS[name].log_factors(some, model, seed, size, n_jobs, rates=own_rates)
        known.put(chosen, found)
        methods[chosen] = name
    values -= log_normaliser(model) if own is None else own.log_normalisers(model)
    return expand_distinct(known, methods, inverse, method)


def log_normaliser(model: GaP) -> float:
    """Return Σ_k α_k log(1 + ||w_k||₁/β_k), minus the log of the first factor of Eq. 31."""
    return float(model.alpha @ log_one_plus(model.column_norms, model.beta))


class MarginalCostSplit(NamedTuple):
    """Mean cost of a sample, C_ML/N, as the sum of data term, penalty and constant.

    Penalty and constant together are Σ_k α_k log(1 + ||w_k||₁/β_k), which does not depend on the
    common scale of W and β.

    Attributes
    ----------
    data : float
        Data term, Eq. 33 of the paper.
    penalty : float
        Self-regularisation Σ_k α_k log(||w_k||₁ + β_k), Eq. 34.
    constant : float
        The constant −Σ_k α_k log β_k; 0 if β = 1.
    """

    data: float
    penalty: float
    constant: float

    @property
    def total(self) -> float:
        """Mean negative log-likelihood C_ML/N."""
        return self.data + self.penalty + self.constant


def split_marginal_cost(
    X: Any, model: GaP, *, random_state: Any = None, n_jobs: int | None = None
) -> MarginalCostSplit:
    """Split the mean cost C_ML/N into data term, penalty and constant: Eqs. 33 and 34.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    model : GaP
        The model.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness for samples whose likelihood is estimated.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning.

    Returns
    -------
    MarginalCostSplit
        The three terms and their `total`.

    See Also
    --------
    log_marginal_likelihood : Compute the likelihood with error bars.
    split_joint_cost : Split the joint cost.

    Examples
    --------
    >>> from gapmf import GaP, log_marginal_likelihood, split_marginal_cost
    >>> model = GaP([[3.0, 0.5], [1.0, 2.0]])
    >>> split = split_marginal_cost([[4, 1], [0, 0]], model)
    >>> total = log_marginal_likelihood([[4, 1], [0, 0]], model).total
    >>> round(split.total, 10) == round(-total / 2, 10)
    True
    """
    ll = log_marginal_likelihood(X, model, random_state=random_state, n_jobs=n_jobs)
    data = -float(ll.per_sample.mean()) - log_normaliser(model)
    return MarginalCostSplit(data, model.penalty(), 0.0 - float(model.alpha @ np.log(model.beta)))


class _Task(NamedTuple):
    """A block of samples with the same columns of W, exact method and quadrature rule."""

    method: str
    members: Index
    columns: Index


def _plan(
    rows: sp.csr_array,
    place: Index,
    model: GaP,
    method: str,
    max_cost: float,
    size: int,
    *,
    coarse: bool,
) -> tuple[Index, list[_Task]]:
    """Choose the method of each distinct sample, and cut the exact ones into tasks.

    Methods are indices of METHODS. place (N,) are the samples' rows in X, for error messages. If
    estimates are `coarse`, a sample is exact where that costs no more than its estimate.
    """
    N = rows.shape[0]
    groups = list(planning.group_by_support(rows, model.W))
    costs = planning.Costs(np.zeros((3, N)), np.zeros(N), np.zeros((3, N)))
    rule = np.zeros(N, dtype=np.int64)
    which = np.full(N, _IMPOSSIBLE)
    total = np.asarray(rows.sum(axis=1)).astype(float)
    limit = np.full(N, planning.AUTO_COST)
    if coarse:
        limit = smc.coarse_cost(rows, model.n_components)
    for members, columns in groups:
        alpha = model.alpha[columns]
        for array, values in zip(costs, planning.predict(rows[members], alpha), strict=True):
            array[..., members] = values
        rule[members] = exact.rule_key(alpha, total[members])
        operations = costs.operations[:, members]
        which[members] = _choose(method, operations, columns.size, limit[members])
    estimated = which >= len(EXACT_METHODS)
    chosen = costs.operations[np.where(estimated, 0, which), np.arange(N)]
    if estimated.any():
        estimator = ESTIMATORS[METHODS[which[estimated][0]]]
        predicted = limit[estimated]
        if not coarse:
            predicted = estimator.predict_cost(rows[estimated], model.n_components, size)
        chosen[estimated] = predicted
    planning.refuse_if_too_costly(method, chosen, costs, total, place, max_cost)
    n_entries = np.diff(rows.indptr)
    return which, [
        _Task(EXACT_METHODS[m], block, columns)
        for members, columns in groups
        for m in range(len(EXACT_METHODS))
        for block in planning.cut_blocks(members[which[members] == m], rule, n_entries, chosen)
    ]


def _choose(method: str, operations: Array, n_columns: int, limit: Array) -> Index:
    """Choose the method of samples with the same columns and these costs (3, N).

    limit (N,) is the largest cost of exact methods that "auto" chooses.
    """
    if method == "auto":
        cheap = operations.min(axis=0) <= limit
        return np.where(cheap, operations.argmin(axis=0), METHODS.index("smc"))
    if method not in EXACT_METHODS and n_columns < 2:  # one term, in closed form
        method = EXACT_METHODS[0]
    method = "smc" if method == "estimate" else method
    return np.full(operations.shape[1], METHODS.index(method))


def _exact_factors(
    rows: sp.csr_array,
    tasks: list[_Task],
    model: GaP,
    rates: Array | None,
    n_jobs: int | None,
    progress: Progress | None,
) -> tuple[Array, NDArray[np.str_]]:
    """Return the second factor of Eq. 31 for the samples of the tasks, and their methods."""

    def work(task: _Task) -> Array:
        block = take_block(rows, task.members, own=rates is not None)
        p, log_scale = exact.block_probabilities(model, rates, block, task.members, task.columns)
        return exact.log_factors(task.method, block, p, log_scale, model.alpha[task.columns])

    factor = np.full(rows.shape[0], -np.inf)
    methods = np.full(rows.shape[0], "impossible")  # no column can have produced the sample
    for task, values in zip(tasks, for_each(work, tasks, n_jobs, progress), strict=True):
        factor[task.members] = values
        methods[task.members] = task.method
    return factor, methods


def comparison_log_likelihood(
    X: sp.csr_array,
    model: GaP,
    seed: int,
    n_jobs: int | None,
    precision: float = COMPARISON_PRECISION,
    observation: Observation | None = None,
) -> LogLikelihood:
    """Compute log p(X | W) for a comparison of models, without a limit of its cost.

    A fit must not be lost because its likelihood is costly.
    """
    return log_likelihood_of(
        X,
        model,
        precision=precision,
        random_state=seed,
        n_jobs=n_jobs,
        max_cost=np.inf,
        observation=observation,
    )
