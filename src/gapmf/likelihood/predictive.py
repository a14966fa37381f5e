"""Scores per token: perplexity and document completion."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from gapmf.counts import check_counts
from gapmf.csr import sum_entries
from gapmf.distributions import log_one_plus
from gapmf.errors import InvalidInputError, TooCostlyError
from gapmf.kernels.total_count import log_law
from gapmf.likelihood.bound import mean_field_bound
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.likelihood.planning import check_support
from gapmf.likelihood.posterior import posterior_activations
from gapmf.likelihood.result import LogLikelihood
from gapmf.likelihood.sample import ACTIVATIONS
from gapmf.likelihood.short_chains import sample_sizes
from gapmf.model import GaP, model_of
from gapmf.observation import Observation, rates_of
from gapmf.types import Array
from gapmf.validation import check_number, check_random_state

_ENTRIES_AT_ONCE = 1 << 16
SCORE_SWEEPS = 32  # of each chain, where the activations predict held-out counts
MEAN_FIELD_TOL, MEAN_FIELD_PASSES = 1e-3, 50
MAX_TOTAL = 300_000  # largest total count whose law is computed: half a minute


@dataclass(frozen=True, eq=False, repr=False)
class Perplexity:
    """Predictive score of a model per token.

    Attributes
    ----------
    perplexity : float
        The value exp(−log_p_token): the number of equally likely tokens that would be as hard
        to predict.
    log_p_token : float
        Mean log-probability per token in nats, given the number of tokens of each sample and
        for one order of them, as topic models report it.
    std_error : float
        Standard error of `log_p_token`.
    log_likelihood : LogLikelihood
        Log-likelihood of the counts; it includes the totals and the number of orders.
    n_tokens : int
        Number of tokens.
    """

    perplexity: float
    log_p_token: float
    std_error: float
    log_likelihood: LogLikelihood
    n_tokens: int

    def __repr__(self) -> str:
        return f"Perplexity({self.perplexity:.2f}, n_tokens={self.n_tokens})"


def perplexity(
    X: Any,
    model: Any,
    *,
    precision: float | None = 1e-4,
    method: str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Perplexity:
    """Compute the perplexity of counts under a model, with the activations integrated out.

    Lower is better; [1]_ compares ways to compute it for topic models.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts, not all zero.
    model : GaP or GammaPoissonMF
        The model, or a fitted estimator, whose smoothing is used.
    precision : float or None, default=1e-4
        Target for the standard error in nats per token, for method "auto". It may not be reached,
        for example if X has only a few short samples. If None, each sample is computed as by
        `log_marginal_likelihood` without `precision`.
    method : str, default="auto"
        Method for the likelihood, as in `log_marginal_likelihood`.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness for samples whose likelihood is estimated.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning.

    Returns
    -------
    Perplexity
        The perplexity and the mean log-probability per token, with its standard error.

    See Also
    --------
    document_completion : Score tokens given a part of their sample.
    log_marginal_likelihood : Compute the likelihood of the counts.

    References
    ----------
    .. [1] H. M. Wallach, I. Murray, R. Salakhutdinov and D. Mimno, "Evaluation Methods for Topic
       Models", ICML, 2009.

    Examples
    --------
    >>> from gapmf import GaP, perplexity
    >>> round(perplexity([[4, 1], [0, 3]], GaP([[2.0], [2.0]])).perplexity, 6)
    2.0
    """
    model = model_of(model)
    counts = check_counts(X, n_features=model.n_features)
    n_tokens = _check_tokens(counts)
    found = log_marginal_likelihood(
        counts,
        model,
        method,
        precision=precision if method == "auto" else None,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    rest = log_totals(counts, model) + _log_orders(counts)
    log_p = (found.total - float(rest.sum())) / n_tokens
    return Perplexity(float(np.exp(-log_p)), log_p, found.std_error / n_tokens, found, n_tokens)


def log_totals(counts: sp.csr_array, model: GaP) -> Array:
    """Return log p(Σ_f v_fn) for every sample, (N,)."""
    total = np.asarray(counts.sum(axis=1)).astype(np.int64)
    most = int(total.max(initial=0))
    if most > MAX_TOTAL:
        raise TooCostlyError(
            f"row {int(total.argmax())} of X has {most} counts, but the probability of a total is "
            f"computed up to {MAX_TOTAL} only: leave the sample out"
        )
    law, c, p = np.empty((3, most + 1))
    log_rest = -log_one_plus(model.column_norms, model.beta)
    with np.errstate(divide="ignore"):  # empty components
        log_q = np.log(model.column_norms) - np.log(model.beta) + log_rest
    log_law(model.alpha, log_q, log_rest, c, p, law)
    return np.asarray(law[total])


@dataclass(frozen=True, eq=False, repr=False)
class Completion:
    """Predictive score of held-out tokens, given the other tokens of their samples.

    Attributes
    ----------
    perplexity : float
        The value exp(−log_p_token).
    log_p_token : float
        Mean log-probability per held-out token in nats. Tokens are predicted one at a time, with
        probabilities proportional to their expected counts given the observed tokens.
    log_p : float
        Joint log-probability of all held-out counts given the observed ones; nan unless `joint`.
    std_error : float
        Standard error of `log_p`; nan unless `joint`.
    n_tokens : int
        Number of held-out tokens.
    """

    perplexity: float
    log_p_token: float
    log_p: float
    std_error: float
    n_tokens: int

    def __repr__(self) -> str:
        return f"Completion(perplexity={self.perplexity:.2f}, n_tokens={self.n_tokens})"


def document_completion(
    observed: Any,
    held_out: Any,
    model: Any,
    *,
    precision: float = 0.05,
    joint: bool = False,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Completion:
    """Score a model on held-out tokens, given the other tokens of each sample.

    A token is one unit of count. Fit the model to whole samples: it must describe observed and
    held-out counts together. The score uses the posterior of the activations given the observed
    counts.

    Parameters
    ----------
    observed : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Observed counts, or all counts if `held_out` is a number.
    held_out : float, or array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Held-out counts of the same samples: the share of held-out tokens is computed from the
        totals. Or a number between 0 and 1: the tokens of `observed` are then split at random, and
        each is held out with this probability.
    model : GaP or GammaPoissonMF
        The model, or a fitted estimator, whose smoothing is used.
    precision : float, default=0.05
        Target for the Monte Carlo error of a sample's activations, as in `posterior_activations`.
    joint : bool, default=False
        Whether to compute the joint log-probability `log_p` as well, which takes longer.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness of the split and of estimates.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning.

    Returns
    -------
    Completion
        Perplexity per held-out token, and joint log-probability of the held-out counts. `log_p`
        and `std_error` are nan unless joint=True.

    See Also
    --------
    perplexity : Score all tokens of a sample; its reference describes both scores.

    Examples
    --------
    >>> from gapmf import GaP, document_completion
    >>> model = GaP([[9.0, 0.0], [9.0, 0.0], [0.0, 9.0], [0.0, 9.0]], alpha=0.1)
    >>> X = model.sample(50, random_state=0)
    >>> document_completion(X, 0.5, model, random_state=0).perplexity < 4
    True
    """
    model = model_of(model)
    counts = check_counts(observed, n_features=model.n_features, name="observed")
    rng = check_random_state(random_state)
    if isinstance(held_out, numbers.Real):
        share = check_number(held_out, "held_out", above=0.0)
        if share >= 1.0:
            raise InvalidInputError(
                f"held_out must be counts, or a share between 0 and 1, but is {held_out}"
            )
        shown, rest = split_tokens(counts, 1.0 - share, rng)
        n_tokens = _check_tokens(rest)
    else:
        shown, rest = counts, check_counts(held_out, n_features=model.n_features, name="held_out")
        if rest.shape != shown.shape:
            raise InvalidInputError(
                f"observed and held_out must be of the same samples, but have {shown.shape[0]} "
                f"and {rest.shape[0]}"
            )
        n_tokens = _check_tokens(rest)
        share = n_tokens / (n_tokens + max(float(shown.sum()), 1.0))
    check_support(rest, model.W)
    smaller = GaP(model.W * (1.0 - share), model.alpha, model.beta)
    seed = int(rng.integers(2**63))
    h = posterior_activations(
        shown, smaller, precision=precision, quantiles=(), random_state=seed, n_jobs=n_jobs
    ).mean
    log_rates, totals = log_entry_rates(rest, h, model.W), h @ model.column_norms
    per_token = log_rates - np.repeat(np.log(totals), np.diff(rest.indptr))
    log_p_token = float(rest.data @ per_token) / n_tokens
    log_p, error = math.nan, math.nan
    if joint:
        log_p, error = _joint(shown, rest, share, model, smaller, seed, n_jobs)
    return Completion(float(np.exp(-log_p_token)), log_p_token, log_p, error, n_tokens)


def _joint(
    shown: sp.csr_array,
    rest: sp.csr_array,
    share: float,
    model: GaP,
    smaller: GaP,
    seed: int,
    n_jobs: int | None,
) -> tuple[float, float]:
    """Return log p(rest | shown), and its error.

    It is log p(all) + log p(split | all) − log p(shown).
    """
    counts = sp.csr_array(shown + rest)
    both, part = (
        log_marginal_likelihood(x, m, random_state=seed, n_jobs=n_jobs)
        for x, m in ((counts, model), (shown, smaller))
    )
    split = sum(
        sign * gammaln(x.data + 1.0).sum() for sign, x in ((1, counts), (-1, shown), (-1, rest))
    )
    split += shown.sum() * np.log1p(-share) + rest.sum() * np.log(share)
    return both.total + float(split) - part.total, math.hypot(both.std_error, part.std_error)


def held_out_scores(
    rest: sp.csr_array, share: float, model: GaP, h: Array, observation: Observation | None = None
) -> Array:
    """Return log p(rest | h) of each sample, (N,), at its activations by `estimate_activations`.

    The model is that of the other counts. The share of all counts that is in `rest` scales its
    rates.

    The chains of all samples should have the same length. Noise in h costs
    ½ odds Σ_f Var([Wh]_f) / [Wh]_f nats, and if chains ended at a precision, those of a model that
    mixes well would be the shortest. Its score would be too low, by more than a superfluous
    component costs.
    """
    odds = share / (1.0 - share)
    entries = rest.data * (log_entry_rates(rest, h, model.W) + math.log(odds))
    entries -= gammaln(rest.data + 1.0)
    if observation is None:
        return sum_entries(rest.indptr, entries) - odds * (h @ model.column_norms)
    entries += rest.data * np.repeat(np.log(observation.exposure), np.diff(rest.indptr))
    totals = (observation.norms(model.W) * h).sum(axis=1)
    return np.asarray(sum_entries(rest.indptr, entries) - odds * totals)


def estimate_activations(
    counts: sp.csr_array,
    model: GaP,
    seed: int,
    n_jobs: int | None,
    *,
    mean_field: bool = False,
    start: Array | None = None,
    observation: Observation | None = None,
    precision: float = 0.0,
) -> Array:
    """Return estimates of E[h | v], (N, K), good enough to compare models.

    They are those of a few Gibbs chains, or of the mean-field approximation, in a fraction of the
    time, and still less if it starts at activations that are nearly right. With exposures, they
    are always from chains. Chains may end earlier, at a precision as that of `transform`.
    """
    if mean_field and observation is None:
        rate = model.column_norms + model.beta
        sizes = mean_field_bound(
            counts,
            model,
            tol=MEAN_FIELD_TOL,
            max_passes=MEAN_FIELD_PASSES,
            sizes=None if start is None else np.maximum(start * rate - model.alpha, 0.0),
            n_jobs=n_jobs,
        ).sizes
    else:
        sizes = sample_sizes(
            counts,
            model,
            np.uint64(seed),
            ACTIVATIONS,
            precision=precision,
            max_sweeps=SCORE_SWEEPS,
            n_jobs=n_jobs,
            rates=None if observation is None else observation.unit_rates(model),
        ).mean
    return np.asarray((model.alpha + sizes) / rates_of(model, observation))


def log_entry_rates(counts: sp.csr_array, h: Array, W: Array) -> Array:
    """Return log [W h_n]_f for every stored entry of the counts, (nnz,)."""
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    rates = np.empty(counts.nnz)
    for lo in range(0, counts.nnz, _ENTRIES_AT_ONCE):
        some = slice(lo, lo + _ENTRIES_AT_ONCE)
        rates[some] = np.einsum("ik,ik->i", W[counts.indices[some]], h[row[some]])
    return np.log(rates)


def split_tokens(
    counts: sp.csr_array, seen: float, rng: np.random.Generator
) -> tuple[sp.csr_array, sp.csr_array]:
    """Split tokens at random; each is in the first part with probability `seen`."""
    first = rng.binomial(counts.data, seen)
    parts = [
        sp.csr_array((data, counts.indices.copy(), counts.indptr.copy()), shape=counts.shape)
        for data in (first, counts.data - first)
    ]
    for part in parts:
        part.eliminate_zeros()
    return parts[0], parts[1]


def _log_orders(counts: sp.csr_array) -> Array:
    """Return the log-number of orders of each sample's tokens, n! / Π_f v_f!, (N,)."""
    total = np.asarray(counts.sum(axis=1)).astype(float)
    return np.asarray(gammaln(total + 1.0) - sum_entries(counts.indptr, gammaln(counts.data + 1.0)))


def _check_tokens(counts: sp.csr_array) -> int:
    n_tokens = int(counts.sum())
    if n_tokens == 0:
        raise InvalidInputError("there are no counts to score: all samples are empty")
    return n_tokens
