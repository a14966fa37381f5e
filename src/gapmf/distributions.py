"""Negative binomial and negative multinomial distributions in the paper's parametrisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import gammaln, xlogy

from gapmf.errors import InvalidInputError
from gapmf.validation import as_float, check_positive, check_random_state, check_whole

# Stirling: log Γ(x) = (x−½) log x − x + ½ log 2π + Σ_i c_i x^(1−2i); from 10 on, to 1e-14.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def log_rising(a: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Return log Γ(a+n)/Γ(a) for a > 0 and n ≥ 0, without cancellation when a ≫ n."""
    a, n = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(n, dtype=float))
    large = np.maximum(a, 10.0)
    value = (large + n - 0.5) * np.log1p(n / large) + n * np.log(large) - n
    for i, c in enumerate(_STIRLING):
        value += c * ((large + n) ** (-1 - 2 * i) - large ** (-1 - 2 * i))
    return np.asarray(np.where(a < 10.0, gammaln(a + n) - gammaln(a), value))


def log_one_plus(S: ArrayLike, beta: ArrayLike) -> NDArray[np.float64]:
    """Return log(1 + S/β) for S ≥ 0 and β > 0 of any size."""
    S, beta = np.asarray(S, dtype=float), np.asarray(beta, dtype=float)
    small = np.log1p(np.minimum(S, beta) / beta)
    return np.asarray(np.where(beta >= S, small, np.log(S + beta) - np.log(beta)))


def negative_binomial(
    alpha: ArrayLike, p: ArrayLike | None = None, *, p0: ArrayLike | None = None
) -> Any:
    """Make the negative binomial distribution NB(α, p) of Eq. 12.

    P(X = c) = Γ(α+c) / (Γ(α) c!) (1−p)^α p^c, with mean αp/(1−p).

    Parameters
    ----------
    alpha : float or array-like
        Size α > 0 (the inverse of the dispersion).
    p : float or array-like, optional
        Event probability, in [0, 1). SciPy's own parameter is 1 − p.
    p0 : float or array-like, optional
        The complement 1 − p, in (0, 1]. Give `p0` instead of `p` when p is close to 1, so that
        no digits are lost.

    Returns
    -------
    scipy.stats frozen distribution
        A frozen `scipy.stats.nbinom`.

    See Also
    --------
    NegativeMultinomial : Its generalisation to vectors of counts.

    Examples
    --------
    >>> from gapmf import negative_binomial
    >>> float(negative_binomial(2.0, 0.75).mean())
    6.0
    """
    if (p is None) == (p0 is None):
        raise InvalidInputError("give exactly one of p and p0, which is 1 - p")
    a = as_float(alpha, "alpha", "a number or numbers")
    if not (np.isfinite(a) & (a > 0)).all():
        raise InvalidInputError(f"alpha is {alpha!r}: it must be finite and greater than 0")
    if p0 is None:
        q = 1.0 - as_float(p, "p", "a number or numbers")  # type: ignore[arg-type]
    else:
        q = as_float(p0, "p0", "a number or numbers")
    if not ((q > 0) & (q <= 1)).all():
        name, given, wanted = ("p", p, "[0, 1)") if p0 is None else ("p0", p0, "(0, 1]")
        raise InvalidInputError(f"{name} is {given!r}: it must be in {wanted}")
    return stats.nbinom(a, q)


class NegativeMultinomial:
    """Negative multinomial distribution NM(α, p) with the interface of `scipy.stats`.

    It counts F kinds of events until α failures. It is also the distribution of independent
    Poisson counts whose rates share one Gamma-distributed factor (Proposition 1 of [1]_).

    Parameters
    ----------
    alpha : float
        Size α > 0 (the inverse of the dispersion); it need not be an integer.
    p : array-like of shape (n_features,)
        Event probabilities, ≥ 0, with a sum below 1. The paper writes p₀ for 1 − Σ_f p_f.

    Attributes
    ----------
    alpha : float
        Size α.
    p : ndarray of shape (n_features,)
        Event probabilities, read-only.
    p0 : float
        Probability p₀ of a failure.

    See Also
    --------
    negative_binomial : The case of one feature.
    GaP.component : The distribution of the counts of a component.

    References
    ----------
    .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
       Gamma-Poisson Matrix Factorization", ICML, 2018.

    Examples
    --------
    >>> from gapmf import NegativeMultinomial
    >>> nm = NegativeMultinomial(2.0, [0.3, 0.2])
    >>> nm.mean()
    array([1.2, 0.8])
    >>> round(float(nm.pmf([1, 0])), 6)
    0.15
    """

    def __init__(self, alpha: float, p: ArrayLike) -> None:
        p = as_float(p, "p", "the event probabilities, one per feature")
        if p.ndim != 1 or p.size == 0:
            raise InvalidInputError(f"p must be 1-D and not empty, but has shape {p.shape}")
        inside = (p >= 0) & (p <= 1)
        if not inside.all():
            f = int(inside.argmin())
            raise InvalidInputError(f"p[{f}] is {p[f]}: event probabilities lie in [0, 1]")
        if p.sum() >= 1:
            raise InvalidInputError(
                f"p sums to {p.sum()}, but the sum must be below 1: what is left, 1 - sum(p), is "
                "the probability of a failure"
            )
        self._set(alpha, p, 1.0 - float(p.sum()), float(np.log1p(-p.sum())))

    @classmethod
    def from_rates(cls, alpha: float, beta: float, w: ArrayLike) -> NegativeMultinomial:
        """Make the distribution of x_f ~ Poisson(w_f λ), λ ~ Gamma(α, β): Proposition 1, Eq. 17.

        p₀ = β/(Σw + β) is computed without a subtraction, so it stays accurate when Σw ≫ β.

        Parameters
        ----------
        alpha : float
            Shape α > 0 of the Gamma distribution.
        beta : float
            Rate β > 0 of the Gamma distribution.
        w : array-like of shape (n_features,)
            Rates of the features given λ = 1, ≥ 0.

        Returns
        -------
        NegativeMultinomial
            NM(α, p) with p_f = w_f / (Σw + β).

        Examples
        --------
        >>> NegativeMultinomial.from_rates(1.0, 1.0, [3.0, 1.0]).mean()
        array([3., 1.])
        """
        w = as_float(w, "w", "the rates, one per feature")
        if w.ndim != 1 or w.size == 0 or not (np.isfinite(w) & (w >= 0)).all():
            raise InvalidInputError("w must be 1-D, not empty, finite and 0 or more")
        b = float(check_positive(beta, 1, "beta")[0])
        S = float(w.sum())
        self = cls.__new__(cls)
        self._set(alpha, w / (S + b), b / (S + b), -float(log_one_plus(S, b)))
        return self

    def _set(self, alpha: float, p: NDArray[np.float64], p0: float, log_p0: float) -> None:
        if np.ndim(alpha) != 0:
            raise InvalidInputError(f"alpha must be one number, but is {alpha!r}")
        p.setflags(write=False)
        self.alpha, self.p = float(check_positive(alpha, 1, "alpha")[0]), p
        self.p0, self._log_p0 = p0, log_p0

    def __repr__(self) -> str:
        return f"NegativeMultinomial(alpha={self.alpha:g}, p={np.array2string(self.p)})"

    def logpmf(self, x: ArrayLike) -> NDArray[np.float64] | np.float64:
        """Return the log-probability log P(X = x) of Eq. 15.

        Parameters
        ----------
        x : array-like of shape (..., n_features)
            One vector of counts or several.

        Returns
        -------
        float or ndarray of shape (...)
            Log-probabilities; −inf where x is not a vector of counts.

        Examples
        --------
        >>> round(float(NegativeMultinomial(2.0, [0.5, 0.2]).logpmf([1, 0])), 4)
        -2.4079
        """
        x = as_float(x, "x", "one vector of counts or several")
        if x.ndim == 0 or x.shape[-1] != self.p.size:
            raise InvalidInputError(
                f"x must have {self.p.size} entries in its last dimension, but has shape {x.shape}"
            )
        counts = ((x >= 0) & (x == np.floor(x)) & np.isfinite(x)).all(axis=-1)
        x = np.where(counts[..., None], x, 0.0)
        value = (
            log_rising(self.alpha, x.sum(axis=-1))
            + (xlogy(x, self.p) - gammaln(x + 1)).sum(axis=-1)
            + self.alpha * self._log_p0
        )
        return np.where(counts, value, -np.inf)[()]

    def pmf(self, x: ArrayLike) -> NDArray[np.float64] | np.float64:
        """Return the probability P(X = x) of Eq. 15.

        Parameters
        ----------
        x : array-like of shape (..., n_features)
            One vector of counts or several.

        Returns
        -------
        float or ndarray of shape (...)
            Probabilities; 0 where x is not a vector of counts.

        Examples
        --------
        >>> round(float(NegativeMultinomial(2.0, [0.5, 0.2]).pmf([1, 0])), 4)
        0.09
        """
        return np.exp(self.logpmf(x))

    def mean(self) -> NDArray[np.float64]:
        """Return the mean E[X] = α p / p₀: Eq. 16.

        Returns
        -------
        ndarray of shape (n_features,)
            Expected counts.

        Examples
        --------
        >>> NegativeMultinomial(2.0, [0.5, 0.25]).mean()
        array([4., 2.])
        """
        return self.alpha * self.p / self.p0

    def cov(self) -> NDArray[np.float64]:
        """Return the covariance matrix α (diag(p)/p₀ + p pᵀ/p₀²).

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Covariances of the counts.

        Examples
        --------
        >>> NegativeMultinomial(2.0, [0.5, 0.25]).cov()
        array([[12.,  4.],
               [ 4.,  4.]])
        """
        mean = self.mean()
        return np.diag(mean) + np.outer(mean, mean) / self.alpha

    def rvs(self, size: int | tuple[int, ...] = 1, random_state: Any = None) -> NDArray[np.int64]:
        """Draw random counts.

        Features are drawn one after another from the conditional distributions
        X_f | X_1..X_{f−1} ~ NB(α + Σ_{g<f} X_g, p_f / (p₀ + Σ_{g≤f} p_g)). This uses neither
        the Gamma variable of Proposition 1 nor the multinomial of Proposition 2.

        Parameters
        ----------
        size : int or tuple of int, default=1
            Number of draws. The empty tuple asks for one vector, as in `scipy.stats`.
        random_state : int, Generator, RandomState or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of int64 of shape size + (n_features,)
            The draws.

        Examples
        --------
        >>> NegativeMultinomial(2.0, [0.5, 0.25]).rvs(3, random_state=0).shape
        (3, 2)
        """
        rng = check_random_state(random_state)
        sizes = size if isinstance(size, tuple) else (size,)
        shape = tuple(check_whole(n, "size", least=0) for n in sizes)
        x = np.zeros((*shape, self.p.size), dtype=np.int64)
        total = np.zeros(shape)
        before = self.p0
        for f, p in enumerate(self.p):
            if p > 0:
                q = before / (before + p)
                x[..., f] = rng.negative_binomial(self.alpha + total, q, shape)
                total += x[..., f]
            before += p
        return x
