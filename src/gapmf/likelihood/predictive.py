"""Scores that practitioners know: nats a token, perplexity, document completion."""

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

MOST_COUNTS = 300_000  # of a sample whose total's law is computed: half a minute


@dataclass(frozen=True, eq=False, repr=False)
class Perplexity:
    """How well a model predicts tokens.

    Attributes
    ----------
    perplexity : float
        exp(−log_p_token): the number of equally likely tokens that would be as hard to guess.
    log_p_token, std_error : float
        The mean of log p(token), nats, and its standard error: of the tokens of each sample in
        any order, given how many they are. This is what topic models report.
    log_likelihood : LogLikelihood
        log p(X | W), of which `log_p_token` leaves out the totals and the number of orders.
    n_tokens : int
    """

    perplexity: float
    log_p_token: float
    std_error: float
    log_likelihood: LogLikelihood
    n_tokens: int

    def __repr__(self) -> str:
        return f"Perplexity({self.perplexity:.2f}, of {self.n_tokens} tokens)"


def perplexity(
    X: Any,
    model: GaP,
    *,
    method: str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Perplexity:
    """The perplexity of counts under a model, with the activations integrated out.

    Parameters
    ----------
    X : counts, (N, F)
        With at least one count.
    model : GaP
    method, random_state, n_jobs : as for `log_marginal_likelihood`

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
    return Perplexity(
        perplexity=float(np.exp(-log_p)),
        log_p_token=log_p,
        std_error=found.std_error / n_tokens,
        log_likelihood=found,
        n_tokens=n_tokens,
    )


def log_totals(counts: sp.csr_array, model: GaP) -> Array:
    """log p(Σ_f v_fn) for every sample, (N,)."""
    total = np.asarray(counts.sum(axis=1)).astype(np.int64)
    most = int(total.max(initial=0))
    if most > MOST_COUNTS:
        raise TooCostlyError(
            f"row {int(total.argmax())} of X has {most} counts: the law of totals above "
            f"{MOST_COUNTS} takes too long"
        )
    law, c, p = np.empty((3, most + 1))
    log_rest = -log_one_plus(model.column_norms, model.beta)
    with np.errstate(divide="ignore"):  # an empty component
        log_q = np.log(model.column_norms) - np.log(model.beta) + log_rest
    log_law(model.alpha, log_q, log_rest, c, p, law)
    return np.asarray(law[total])


@dataclass(frozen=True, eq=False, repr=False)
class Completion:
    """How well a model completes samples of which it has seen a part.

    Attributes
    ----------
    perplexity : float
        exp(−log_p_token).
    log_p_token : float
        The mean of log p(token) over held-out tokens, nats: each by itself, with probabilities
        proportional to its rate E[Wh | what was seen].
    log_p, std_error : float
        log p(all that was held out | what was seen), together, and its standard error.
    n_tokens : int
        That were held out.
    """

    perplexity: float
    log_p_token: float
    log_p: float
    std_error: float
    n_tokens: int

    def __repr__(self) -> str:
        return f"Completion(perplexity={self.perplexity:.2f}, of {self.n_tokens} tokens)"


def document_completion(
    X: Any,
    model: GaP,
    *,
    seen: float = 0.5,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Completion:
    """Show the model a part of every sample's tokens, and score it on the rest.

    Every token is shown with probability `seen`, independently. What is shown then is Poisson
    with rates `seen` times W h, and what is held out is Poisson given h as well: both scores
    condition on the posterior of h that this gives.

    Parameters
    ----------
    X : counts, (N, F)
    model : GaP
    seen : float
        Between 0 and 1, exclusively.
    random_state : None, int, Generator or RandomState
    n_jobs : int, optional

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
    log_p_token = _log_rates(rest, h, model) / n_tokens
    log_p, error = _log_ratio(counts, shown, model, smaller, seen, seed, n_jobs)
    return Completion(float(np.exp(-log_p_token)), log_p_token, log_p, error, n_tokens)


def split_tokens(
    counts: sp.csr_array, seen: float, rng: np.random.Generator
) -> tuple[sp.csr_array, sp.csr_array]:
    """Tokens at random in two parts, of which the first has a share of `seen`."""
    first = rng.binomial(counts.data, seen)
    parts = [
        sp.csr_array((data, counts.indices.copy(), counts.indptr.copy()), shape=counts.shape)
        for data in (first, counts.data - first)
    ]
    for part in parts:
        part.eliminate_zeros()
    return parts[0], parts[1]


def _log_rates(rest: sp.csr_array, h: Array, model: GaP) -> float:
    """Σ v_fn log([W h_n]_f / Σ_f' [W h_n]_f'), over what was held out."""
    totals = np.log(h @ model.column_norms)
    value = 0.0
    for n in range(rest.shape[0]):
        some = slice(rest.indptr[n], rest.indptr[n + 1])
        rates = model.W[rest.indices[some]] @ h[n]
        value += float(rest.data[some] @ (np.log(rates) - totals[n]))
    return value


def _log_ratio(
    counts: sp.csr_array,
    shown: sp.csr_array,
    model: GaP,
    smaller: GaP,
    seen: float,
    seed: int,
    n_jobs: int | None,
) -> tuple[float, float]:
    """log p(rest | shown) = log p(all) + log p(this split | all) − log p(shown)."""
    both, part = (
        log_marginal_likelihood(x, m, random_state=seed, n_jobs=n_jobs)
        for x, m in ((counts, model), (shown, smaller))
    )
    n, n_shown = counts.sum(), shown.sum()
    rest = counts - shown
    split = sum(
        sign * gammaln(x.data + 1.0).sum() for sign, x in ((1, counts), (-1, shown), (-1, rest))
    )
    split += n_shown * np.log(seen) + (n - n_shown) * np.log1p(-seen)
    value = both.total + float(split) - part.total
    return value, float(np.hypot(both.std_error, part.std_error))


def _log_orders(counts: sp.csr_array) -> Array:
    """log of the number of orders of a sample's tokens, n! / Π_f v_f!, (N,)."""
    total = np.asarray(counts.sum(axis=1)).astype(float)
    return np.asarray(gammaln(total + 1.0) - sum_entries(counts.indptr, gammaln(counts.data + 1.0)))


def _check_tokens(counts: sp.csr_array) -> int:
    n_tokens = int(counts.sum())
    if n_tokens == 0:
        raise InvalidInputError("there are no counts to score: all samples are empty")
    return n_tokens
