"""The Gamma-Poisson model: parameters, derived quantities and sampling."""

from __future__ import annotations

import numbers
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapmf.errors import InvalidInputError
from gapmf.types import Array
from gapmf.validation import (
    check_alpha,
    check_dictionary,
    check_option,
    check_positive,
    check_random_state,
    check_whole,
    frozen,
)

if TYPE_CHECKING:
    from gapmf.distributions import NegativeMultinomial

FORMS = ("gamma-poisson", "negative-multinomial", "multinomial")


class Latent(NamedTuple):
    """Latent variables behind the counts X that `GaP.sample` draws.

    They satisfy X = C.sum(axis=1) and L = C.sum(axis=2).

    Attributes
    ----------
    H : ndarray of shape (n_samples, n_components)
        Activations h_kn.
    L : ndarray of int64 of shape (n_samples, n_components)
        Component sizes L_kn = Σ_f c_fkn.
    C : ndarray of int64 of shape (n_samples, n_components, n_features)
        Counts of each component: C[n, k] is the paper's vector c_kn.
    """

    H: Array
    L: NDArray[np.int64]
    C: NDArray[np.int64]


class GaP:
    """Gamma-Poisson model with fixed parameters: h_kn ~ Gamma(α_k, β_k), v_n ~ Poisson(W h_n).

    Parameters
    ----------
    W : array-like of shape (n_features, n_components)
        Dictionary, ≥ 0, with one column per component.
    alpha : float or array-like of shape (n_components,), default=1.0
        Shape of the Gamma prior of the activations, > 0. In the paper, this is α.
    beta : float or array-like of shape (n_components,), default=1.0
        Rate of the Gamma prior of the activations, > 0. In the paper, this is β.

    Attributes
    ----------
    W : ndarray of shape (n_features, n_components)
        Dictionary, read-only.
    alpha : ndarray of shape (n_components,)
        Shapes, read-only.
    beta : ndarray of shape (n_components,)
        Rates, read-only.

    See Also
    --------
    GammaPoissonMF : Fit a model to counts.
    log_marginal_likelihood : Compute the likelihood of counts under a model.

    Notes
    -----
    A model and its arrays are immutable. Counts have one row per sample and one column per
    feature: X is the transpose of the paper's V [1]_.

    References
    ----------
    .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
       Gamma-Poisson Matrix Factorization", ICML, 2018.

    Examples
    --------
    >>> from gapmf import GaP
    >>> model = GaP([[3.0, 0.0], [1.0, 2.0]], alpha=0.5)
    >>> model.expected_counts()
    array([1.5, 1.5])
    >>> model.sample(2, random_state=0).shape
    (2, 2)
    """

    W: Array
    alpha: Array
    beta: Array

    def __init__(self, W: ArrayLike, alpha: ArrayLike = 1.0, beta: ArrayLike = 1.0) -> None:
        W = check_dictionary(W)
        set_once = object.__setattr__
        set_once(self, "W", W)
        set_once(self, "alpha", check_alpha(alpha, W.shape[1]))
        set_once(self, "beta", check_positive(beta, W.shape[1], "beta"))
        with np.errstate(over="ignore"):
            bounded = np.isfinite(W.sum(axis=0) + self.beta).all()
        if not bounded:
            raise InvalidInputError("a column of W sums to infinity: scale W and beta down")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a GaP model is frozen: make a new one to change {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a GaP model is frozen: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[type[GaP], tuple[Array, Array, Array]]:
        return GaP, (self.W, self.alpha, self.beta)  # read-only again after a copy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaP):
            return NotImplemented
        mine, theirs = self.__reduce__()[1], other.__reduce__()[1]
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(array.tobytes() for array in self.__reduce__()[1]))

    def __repr__(self) -> str:
        def short(a: Array) -> str:
            same = (a == a[0]).all()
            return f"{a[0]:g}" if same else np.array2string(a, precision=4, threshold=6)

        return (
            f"GaP(n_features={self.n_features}, n_components={self.n_components}, "
            f"alpha={short(self.alpha)}, beta={short(self.beta)})"
        )

    @property
    def n_features(self) -> int:
        """Number of features, F: the rows of W."""
        return int(self.W.shape[0])

    @property
    def n_components(self) -> int:
        """Number of components, K: the columns of W."""
        return int(self.W.shape[1])

    @cached_property
    def column_norms(self) -> Array:
        """Column norms S_k = ||w_k||₁, an array of shape (n_components,)."""
        return frozen(self.W.sum(axis=0))

    @cached_property
    def event_probabilities(self) -> Array:
        """Event probabilities p_fk = w_fk / (||w_k||₁ + β_k), with the shape of W: Eq. 30."""
        return frozen(self.W / (self.column_norms + self.beta))

    def expected_counts(self) -> Array:
        """Return the expected counts E[v_n] = Σ_k (α_k/β_k) w_k: Eqs. 20 and 21.

        Returns
        -------
        ndarray of shape (n_features,)
            Expected count of each feature in one sample.

        Examples
        --------
        >>> GaP([[3.0, 0.5], [1.0, 2.0]]).expected_counts()
        array([3.5, 3. ])
        """
        return self.W @ (self.alpha / self.beta)

    @cached_property
    def shares(self) -> Array:
        """Share of each component in the expected total count, of shape (n_components,).

        Shares sum to one. If W is all zero, they are all zero.
        """
        with np.errstate(divide="ignore"):
            log_part = np.log(self.column_norms) + np.log(self.alpha) - np.log(self.beta)
        if log_part.max() == -np.inf:
            return frozen(np.zeros(self.n_components))
        part = np.exp(log_part - log_part.max())
        return frozen(part / part.sum())

    def penalty(self) -> float:
        """Return the self-regularisation term Σ_k α_k log(||w_k||₁ + β_k): Eq. 34.

        Returns
        -------
        float
            The penalty, in nats per sample.

        Examples
        --------
        >>> round(GaP([[3.0, 0.5], [1.0, 2.0]]).penalty(), 4)
        2.8622
        """
        return float(self.alpha @ np.log(self.column_norms + self.beta))

    def log_prior(self, pseudo_count: float) -> float:
        """Return η Σ_fk log(F w_fk / S_k), the log-density of a prior on the columns' directions.

        Each direction w_k / S_k has a Dirichlet(1 + η) prior. Its density is scaled to 1 at equal
        weights, its largest value. An empty column counts as one with equal weights.

        Parameters
        ----------
        pseudo_count : float
            The weight η of the prior; 0 is no prior.

        Returns
        -------
        float
            At most 0; −inf if η > 0 and a column that is not empty has an entry 0.

        Examples
        --------
        >>> round(GaP([[3.0, 1.0], [1.0, 1.0]]).log_prior(0.5), 4)
        -0.1438
        """
        if pseudo_count == 0.0:
            return 0.0
        used = self.column_norms > 0
        W = self.W if used.all() else self.W[:, used]
        with np.errstate(divide="ignore"):  # −inf where an entry is 0
            logs = float(np.log(W).sum())
        F = self.n_features
        return pseudo_count * (logs - F * float(np.log(self.column_norms[used] / F).sum()))

    def rescale(self, scale: ArrayLike) -> GaP:
        """Rescale W and β together; the distribution of the counts does not change: Eq. 32.

        Parameters
        ----------
        scale : float or array-like of shape (n_components,)
            Diagonal of the matrix Λ, > 0.

        Returns
        -------
        GaP
            The model with W Λ and β Λ.

        Examples
        --------
        >>> GaP([[3.0, 0.5], [1.0, 2.0]]).rescale(2.0).beta
        array([2., 2.])
        """
        lam = check_positive(scale, self.n_components, "scale")
        return GaP(self.W * lam, self.alpha, self.beta * lam)

    def component(self, k: int) -> NegativeMultinomial:
        """Return the distribution of the counts of a component, c_kn: Eq. 18.

        It is negative multinomial.

        Parameters
        ----------
        k : int
            Number of the component, counted from 0.

        Returns
        -------
        NegativeMultinomial
            Distribution of the counts of the component in one sample.

        Examples
        --------
        >>> GaP([[3.0, 0.5], [1.0, 2.0]], alpha=[1.0, 2.0]).component(1).mean()
        array([1., 4.])
        """
        from gapmf.distributions import NegativeMultinomial  # SciPy: a model is read without it

        index: Any = k
        whole = isinstance(index, numbers.Integral) and not isinstance(index, bool)
        if not whole or not -self.n_components <= index < self.n_components:
            raise InvalidInputError(
                f"component {k!r} does not exist: the model has {self.n_components}, counted from 0"
            )
        return NegativeMultinomial.from_rates(self.alpha[k], self.beta[k], self.W[:, k])

    @overload
    def sample(
        self,
        n_samples: int,
        form: str = ...,
        random_state: Any = ...,
        *,
        return_latent: Literal[False] = False,
    ) -> NDArray[np.int64]: ...
    @overload
    def sample(
        self,
        n_samples: int,
        form: str = ...,
        random_state: Any = ...,
        *,
        return_latent: Literal[True],
    ) -> tuple[NDArray[np.int64], Latent]: ...
    def sample(
        self,
        n_samples: int,
        form: str = "gamma-poisson",
        random_state: Any = None,
        *,
        return_latent: bool = False,
    ) -> NDArray[np.int64] | tuple[NDArray[np.int64], Latent]:
        """Draw counts by one of the paper's three generative forms of the same distribution.

        Parameters
        ----------
        n_samples : int
            Number of samples.
        form : {"gamma-poisson", "negative-multinomial", "multinomial"}, default="gamma-poisson"
            How to draw. "gamma-poisson" is the definition (Eqs. 1 and 2 of [1]_);
            "negative-multinomial" adds up the counts of the components, each of which is negative
            multinomial (Theorem 1, Eqs. 18 and 19); "multinomial" draws multinomials of random
            size (Theorem 2, Eqs. 22 to 24).
        random_state : int, Generator, RandomState or None, default=None
            Source of randomness. NumPy's Gamma variates follow [2]_.
        return_latent : bool, default=False
            Whether to return H, L and C as well; X does not depend on it. The two forms
            without H draw it from its distribution given C, so that all forms have the same joint
            distribution.

        Returns
        -------
        X : ndarray of int64 of shape (n_samples, n_features)
            The counts.
        latent : Latent
            The latent variables; only if `return_latent` is True.

        References
        ----------
        .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
           Gamma-Poisson Matrix Factorization", ICML, 2018.
        .. [2] G. Marsaglia and W. W. Tsang, "A Simple Method for Generating Gamma Variables",
           ACM Transactions on Mathematical Software 26(3), 2000.

        Examples
        --------
        >>> GaP([[3.0, 0.5], [1.0, 2.0]]).sample(5, random_state=0).shape
        (5, 2)
        """
        n_samples = check_whole(n_samples, "n_samples")
        form = check_option(form, FORMS, "form")
        rng = check_random_state(random_state)
        try:
            return self._draw(n_samples, form, rng, return_latent)
        except ValueError as error:  # NumPy: "lam value too large"
            raise InvalidInputError(
                f"the model's counts are too large for 64-bit integers ({error}): "
                "scale W down, or beta up"
            ) from None

    def smoothed(self, feature_counts: Array, weight: float) -> GaP:
        """Mix every column of W with a background distribution of features.

        w_k ← (1 − ε) w_k + ε S_k q, where q is proportional to `feature_counts` + 1. Column
        norms do not change. Every count then has a positive probability, even of a feature
        that no component contains.

        Parameters
        ----------
        feature_counts : ndarray of shape (n_features,)
            Totals Σ_n x_nf of the training data.
        weight : float
            Weight ε of the background, in [0, 1).

        Returns
        -------
        GaP
            The mixed model, or this one if `weight` is 0.

        Examples
        --------
        >>> GaP([[4.0], [0.0]]).smoothed([3.0, 0.0], 0.5).W.ravel().tolist()
        [3.6, 0.4]
        """
        if weight == 0.0:
            return self
        counts = np.asarray(feature_counts, dtype=float) + 1.0
        W = (1.0 - weight) * self.W + weight * np.outer(counts / counts.sum(), self.column_norms)
        return GaP(W, self.alpha, self.beta)

    def _draw(
        self, n_samples: int, form: str, rng: np.random.Generator, return_latent: bool
    ) -> NDArray[np.int64] | tuple[NDArray[np.int64], Latent]:
        if form == "gamma-poisson":
            H, X = _draw_definition(self, n_samples, rng)
            if not return_latent:
                return X
            C = _split_counts(self, H, X, rng)
            return X, Latent(H, C.sum(axis=2), C)
        # Without latents the K components are added one by one: N×F memory, not N×K×F.
        draw = _draw_theorem_1 if form == "negative-multinomial" else _draw_theorem_2
        X = np.zeros((n_samples, self.n_features), dtype=np.int64)
        parts = []
        for k in range(self.n_components):
            c_k = draw(self, k, n_samples, rng)
            X += c_k
            if return_latent:
                parts.append(c_k)
        if not return_latent:
            return X
        C = np.stack(parts, axis=1)
        L = C.sum(axis=2)
        H = rng.gamma(self.alpha + L, 1.0 / (self.beta + self.column_norms))
        return X, Latent(H, L, C)


def check_model(model: Any) -> None:
    """Raise an error unless `model` is a GaP."""
    if not isinstance(model, GaP):
        raise InvalidInputError(f"model must be a GaP, but is {type(model).__name__}")


def model_of(model: Any) -> GaP:
    """Return a GaP, or the model of a fitted estimator with its smoothing."""
    if isinstance(model, GaP):
        return model
    if not hasattr(model, "smoothing"):
        raise InvalidInputError(
            f"expected a GaP or a fitted GammaPoissonMF, but received {type(model).__name__}"
        )
    if not hasattr(model, "model_"):
        raise InvalidInputError(f"this {type(model).__name__} is not fitted yet: call fit first")
    if getattr(model, "exposure_", None) is not None:
        raise InvalidInputError(
            f"this {type(model).__name__} was fitted with exposures, which perplexity and "
            "document completion do not take: compare fits by their log_likelihood or score"
        )
    fitted: GaP = model.model_
    return fitted.smoothed(model.feature_counts_, model.smoothing)


def _draw_definition(
    model: GaP, n_samples: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.int64]]:
    """Draw H ~ Gamma(α, β), then V | H ~ Poisson(WH): Eqs. 1 and 2."""
    H = rng.gamma(model.alpha, 1.0 / model.beta, (n_samples, model.n_components))
    return H, rng.poisson(H @ model.W.T)


def _split_counts(
    model: GaP, H: Array, X: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw C | V, H, (N, K, F): split each v_fn among the components, Eqs. 9 to 11."""
    rates = H[:, None, :] * model.W  # (N, F, K)
    total = rates.sum(axis=2, keepdims=True)
    K = model.n_components
    shares = np.divide(rates, total, out=np.full_like(rates, 1.0 / K), where=total > 0)
    return rng.multinomial(X, shares).transpose(0, 2, 1)


def _draw_theorem_1(
    model: GaP, k: int, n_samples: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw c_kn ~ NM(α_k, p_k), (N, F), to be summed over k: Eqs. 18 and 19."""
    return model.component(k).rvs(n_samples, rng)


def _draw_theorem_2(
    model: GaP, k: int, n_samples: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw L_kn ~ NB(α_k, S_k/(S_k+β_k)), then c_kn ~ Mult(L_kn, w_k/S_k): Eqs. 22 to 24."""
    from gapmf.distributions import negative_binomial

    S, beta = model.column_norms[k], model.beta[k]
    if S == 0:
        return np.zeros((n_samples, model.n_features), dtype=np.int64)
    L = negative_binomial(model.alpha[k], p0=beta / (S + beta)).rvs(n_samples, random_state=rng)
    return rng.multinomial(L, model.W[:, k] / S)


def model_of_step(W: Array, alpha: Array, beta: Array) -> GaP:
    """Make a model of the new dictionary (F, K) of an M-step, which is not copied.

    Column sums stand for a check of the entries: a fit makes hundreds of models, and a check of
    each would cost as much as the M-step.
    """
    W.flags.writeable = False
    model, K, norms = GaP.__new__(GaP), W.shape[1], frozen(W.sum(axis=0))
    parts = {"W": W, "alpha": check_alpha(alpha, K), "beta": check_positive(beta, K, "beta")}
    model.__dict__.update(parts, column_norms=norms)
    if not (np.isfinite(norms + model.beta) & (norms >= 0)).all():
        raise InvalidInputError("a column of W sums to infinity: scale W and beta down")
    return model
