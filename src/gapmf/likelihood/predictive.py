"""Scores per token: perplexity and document completion."""

from __future__ import annotations

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
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.likelihood.planning import check_support
from gapmf.likelihood.posterior import posterior_activations
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP, check_model
from gapmf.types import Array
from gapmf.validation import check_number, check_random_state

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
    X: Any, model: GaP, *, method: str = "auto", random_state: Any = None, n_jobs: int | None = None
) -> Perplexity:
    """Compute the perplexity of counts under a model, with the activations integrated out [1]_.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts, not all zero.
    model : GaP
        The model.
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
    check_model(model)
    counts = check_counts(X, n_features=model.n_features)
    n_tokens = _check_tokens(counts)
    found = log_marginal_likelihood(counts, model, method, random_state=random_state, n_jobs=n_jobs)
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
        probabilities proportional to the rates E[Wh | observed tokens].
    log_p : float
        Joint log-probability of all held-out counts given the observed ones.
    std_error : float
        Standard error of `log_p`.
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
    X: Any, model: GaP, *, seen: float = 0.5, random_state: Any = None, n_jobs: int | None = None
) -> Completion:
    """Score a model on held-out tokens, given the other tokens of each sample.

    Each token is observed independently with probability `seen`. Observed counts are then
    Poisson with rates `seen` × W h, and held-out counts are Poisson given h too. Both scores use
    the posterior of h given the observed counts.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    model : GaP
        The model.
    seen : float, default=0.5
        Probability that a token is observed, in (0, 1).
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness of the split and of estimates.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning.

    Returns
    -------
    Completion
        Perplexity per held-out token, and joint log-probability of the held-out counts.

    See Also
    --------
    perplexity : Score all tokens of a sample; its reference describes both scores.

    Examples
    --------
    >>> from gapmf import GaP, document_completion
    >>> model = GaP([[9.0, 0.0], [9.0, 0.0], [0.0, 9.0], [0.0, 9.0]], alpha=0.1)
    >>> X = model.sample(50, random_state=0)
    >>> document_completion(X, model, random_state=0).perplexity < 4
    True
    """
    check_model(model)
    counts = check_counts(X, n_features=model.n_features)
    seen = check_number(seen, "seen", above=0.0)
    if seen >= 1.0:
        raise InvalidInputError(f"seen must lie between 0 and 1, but is {seen}")
    check_support(counts, model.W)
    rng = check_random_state(random_state)
    shown, rest = split_tokens(counts, seen, rng)
    n_tokens = _check_tokens(rest)
    smaller = GaP(model.W * seen, model.alpha, model.beta)
    seed = int(rng.integers(2**63))
    h = posterior_activations(shown, smaller, quantiles=(), random_state=seed, n_jobs=n_jobs).mean
    log_p_token = _log_p_tokens(rest, h, model) / n_tokens
    # log p(rest | shown) = log p(all) + log p(split | all) − log p(shown)
    both, part = (
        log_marginal_likelihood(x, m, random_state=seed, n_jobs=n_jobs)
        for x, m in ((counts, model), (shown, smaller))
    )
    n, n_shown = counts.sum(), shown.sum()
    split = sum(
        sign * gammaln(x.data + 1.0).sum() for sign, x in ((1, counts), (-1, shown), (-1, rest))
    )
    split += n_shown * np.log(seen) + (n - n_shown) * np.log1p(-seen)
    log_p = both.total + float(split) - part.total
    error = float(np.hypot(both.std_error, part.std_error))
    return Completion(float(np.exp(-log_p_token)), log_p_token, log_p, error, n_tokens)


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


def _log_p_tokens(rest: sp.csr_array, h: Array, model: GaP) -> float:
    """Return Σ v_fn log([W h_n]_f / Σ_f' [W h_n]_f') over the held-out counts."""
    totals = np.log(h @ model.column_norms)
    value = 0.0
    for n in range(rest.shape[0]):
        some = slice(rest.indptr[n], rest.indptr[n + 1])
        rates = model.W[rest.indices[some]] @ h[n]
        value += float(rest.data[some] @ (np.log(rates) - totals[n]))
    return value


def _log_orders(counts: sp.csr_array) -> Array:
    """Return the log-number of orders of each sample's tokens, n! / Π_f v_f!, (N,)."""
    total = np.asarray(counts.sum(axis=1)).astype(float)
    return np.asarray(gammaln(total + 1.0) - sum_entries(counts.indptr, gammaln(counts.data + 1.0)))


def _check_tokens(counts: sp.csr_array) -> int:
    n_tokens = int(counts.sum())
    if n_tokens == 0:
        raise InvalidInputError("there are no counts to score: all samples are empty")
    return n_tokens
