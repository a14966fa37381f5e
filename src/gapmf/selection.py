"""Choice of the number of components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.csr import only_features
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF, fit_copy, fit_from
from gapmf.likelihood.marginal import comparison_log_likelihood
from gapmf.likelihood.result import LogLikelihood, paired_difference
from gapmf.ranks.report import bic_price
from gapmf.types import Array
from gapmf.validation import check_option, check_whole


@dataclass(frozen=True, repr=False, eq=False)
class RankSelection:
    """Comparison of fits with different numbers of components.

    Attributes
    ----------
    n_components : int
        The chosen rank. With held-out counts, it is the smallest one whose held-out
        log-likelihood is within one standard error of the best. Otherwise it has the highest
        `bic`.
    estimator : GammaPoissonMF
        The fit of this rank.
    ranks : ndarray of int of shape (n_ranks,)
        The compared ranks, ascending.
    log_likelihood : ndarray of shape (n_ranks,)
        Log-likelihoods of the fitted counts.
    std_error : ndarray of shape (n_ranks,)
        Standard errors of `log_likelihood`.
    bic : ndarray of shape (n_ranks,)
        Schwarz's criterion: log-likelihood minus ½ log N per parameter. Larger is better.
    held_out : ndarray of shape (n_ranks,) or None
        Log-likelihoods of the held-out counts.
    held_out_error : ndarray of shape (n_ranks,) or None
        Standard errors, over samples, of the differences between `held_out` and its maximum.
    estimators : tuple of GammaPoissonMF
        All fits, in the order of `ranks`.
    """

    n_components: int
    estimator: GammaPoissonMF
    ranks: NDArray[np.int64]
    log_likelihood: Array
    std_error: Array
    bic: Array
    held_out: Array | None
    held_out_error: Array | None
    estimators: tuple[GammaPoissonMF, ...]

    def __repr__(self) -> str:
        return f"RankSelection(n_components={self.n_components}, ranks={self.ranks.tolist()})"

    def __str__(self) -> str:
        head = f"{'rank':>5} {'log-likelihood':>22} {'bic':>14}"
        lines = [head + (f" {'held-out':>22}" if self.held_out is not None else "")]
        for i, rank in enumerate(self.ranks):
            line = f"{rank:>5} {self.log_likelihood[i]:>14.1f} ± {self.std_error[i]:<5.2g} "
            line += f"{self.bic[i]:>14.1f}"
            if self.held_out is not None and self.held_out_error is not None:
                line += f" {self.held_out[i]:>14.1f} ± {self.held_out_error[i]:<5.2g}"
            lines.append(line + ("  <- chosen" if rank == self.n_components else ""))
        return "\n".join(lines)


def select_rank(
    X: Any,
    n_components: Sequence[int] = (1, 2, 3, 5, 8),
    *,
    X_test: Any = None,
    how: str = "fits",
    estimator: GammaPoissonMF | None = None,
) -> RankSelection:
    """Choose the number of components by the marginal likelihood.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts to fit.
    n_components : sequence of int, default=(1, 2, 3, 5, 8)
        Ranks to compare.
    X_test : array-like, sparse matrix or DataFrame of shape (n_test, n_features), optional
        Held-out counts that decide. Features without counts in X are ignored. Without `X_test`,
        the Bayesian information criterion [1]_ decides, which is strict when there are many
        features.
    how : {"fits", "prune"}, default="fits"
        How to get the fits. "fits" makes one per rank. "prune" fits the largest rank and removes
        components one at a time, those whose removal costs least first, as
        `GammaPoissonMF.rank_report` does and down to the rank that it reports. The ranks among
        these that are in `n_components` are compared.
    estimator : GammaPoissonMF, optional
        Estimator whose parameters, except `n_components`, are used. By default, they are those
        of ``GammaPoissonMF()``.

    Returns
    -------
    RankSelection
        The chosen rank, its fit, and the comparison.

    See Also
    --------
    GammaPoissonMF.rank_report : Report the cost of removing each component of a fit.

    References
    ----------
    .. [1] G. Schwarz, "Estimating the Dimension of a Model", The Annals of Statistics 6(2), 1978.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, select_rank
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=100, n_samples=300, random_state=0)
    >>> est = GammaPoissonMF(algorithm="exact", random_state=0)
    >>> select_rank(X, [1, 2, 3], estimator=est)
    RankSelection(n_components=2, ranks=[1, 2, 3])
    """
    counts = check_counts(X)
    ranks = sorted({check_whole(K, "n_components") for K in n_components})
    if not ranks:
        raise InvalidInputError("n_components is empty: give at least one rank")
    check_option(how, ("fits", "prune"), "how")
    template = GammaPoissonMF() if estimator is None else estimator
    seen = np.asarray(counts.sum(axis=0)) > 0
    test = None
    if X_test is not None:
        test = only_features(check_counts(X_test, n_features=seen.size), seen)
        if test.shape[0] < 2:
            raise InvalidInputError("X_test must have two samples or more, but has one")
    made = ranks if how == "fits" else ranks[-1:]
    fits = [fit_copy(template, counts, n_components=K) for K in made]
    if how == "prune":
        models = fits[0].rank_report(counts, test).models
        fits += [fit_from(fits[0], counts, m) for m in models if m.n_components in ranks]
        fits.sort(key=lambda fit: int(fit.n_components))
    return _compare(fits, counts, test, int(seen.sum()))


def _compare(
    fits: list[GammaPoissonMF], counts: sp.csr_array, test: sp.csr_array | None, n_features: int
) -> RankSelection:
    """Compare fits, given in ascending order of rank."""

    def score(X: sp.csr_array) -> list[LogLikelihood]:  # with the same seed for all fits
        return [comparison_log_likelihood(X, fit.model_, 0, fit.n_jobs, 256) for fit in fits]

    values = score(counts)
    ranks = np.array([fit.n_components for fit in fits])
    log_likelihood = np.array([value.total for value in values])
    learned = fits[0].learn_alpha in (True, "component")
    bic = log_likelihood - bic_price(n_features + learned, counts.shape[0]) * ranks
    held_out = error = None
    chosen = int(bic.argmax())
    if test is not None:
        scores = score(test)
        held_out = np.array([score.total for score in scores])
        best = scores[int(held_out.argmax())]
        error = np.array([paired_difference(score, best)[1] for score in scores])
        chosen = int((held_out >= best.total - error).argmax())
    return RankSelection(
        n_components=int(ranks[chosen]),
        estimator=fits[chosen],
        ranks=ranks,
        log_likelihood=log_likelihood,
        std_error=np.array([value.std_error for value in values]),
        bic=bic,
        held_out=held_out,
        held_out_error=error,
        estimators=tuple(fits),
    )
