"""Choosing the number of components among several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from gapmf.counts import check_counts
from gapmf.csr import only_features
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import comparison_log_likelihood
from gapmf.likelihood.result import LogLikelihood
from gapmf.types import Array
from gapmf.validation import check_option, check_whole


@dataclass(frozen=True, repr=False, eq=False)
class RankSelection:
    """Fits of several ranks, compared.

    Attributes
    ----------
    n_components : int
        The rank of choice. With held-out counts, the smallest whose log-likelihood there is
        within one standard error of the best; else the one with the highest `bic`.
    estimator : GammaPoissonMF
        Its fit.
    ranks : int array, (R,)
        In ascending order.
    log_likelihood, std_error : arrays, (R,)
        Of the counts that were fitted.
    bic : array, (R,)
        log_likelihood less half a log N a parameter: Schwarz's criterion, larger is better.
    held_out, held_out_error : arrays, (R,), or None
        The log-likelihood of held-out counts, and the standard error of its difference from
        the best, over samples.
    estimators : tuple of GammaPoissonMF
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
        return f"RankSelection(n_components={self.n_components}, of {self.ranks.tolist()})"

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
    """Fit several numbers of components, and choose one by its marginal likelihood.

    Parameters
    ----------
    X : counts, (N, F)
    n_components : sequence of int
        The ranks to compare.
    X_test : counts, (M, F), optional
        Held-out counts, by which to choose. Features that have none in X are left out of them.
        Without them BIC decides, whose price is high when there are many features.
    how : {"fits", "prune"}
        "fits": a fit for every rank. "prune": one fit, of the largest rank; smaller ones come
        from it by removing the component whose removal costs least, as `rank_report` does, down
        to the rank that its rule finds. Of these only the ones in `n_components` are listed.
    estimator : GammaPoissonMF, optional
        How to fit; its `n_components` does not matter.

    Returns
    -------
    RankSelection

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, select_rank
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=100, n_samples=300, random_state=0)
    >>> est = GammaPoissonMF(algorithm="exact", random_state=0)
    >>> select_rank(X, [1, 2, 3], estimator=est)
    RankSelection(n_components=2, of [1, 2, 3])
    """
    counts = check_counts(X)
    ranks = sorted({check_whole(K, "n_components") for K in n_components})
    if not ranks:
        raise InvalidInputError("n_components must hold at least one rank to fit")
    check_option(how, ("fits", "prune"), "how")
    template = GammaPoissonMF() if estimator is None else estimator
    seen = np.asarray(counts.sum(axis=0)) > 0
    test = None
    if X_test is not None:
        test = only_features(check_counts(X_test, n_features=seen.size), seen)
        if test.shape[0] < 2:
            raise InvalidInputError("X_test must have two samples or more, but has one")
    if how == "fits":
        fits = [clone(template).set_params(n_components=K).fit(counts) for K in ranks]
    else:
        fits = _pruned(counts, ranks, template, test)
    return _compare(fits, counts, test, int(seen.sum()))


def _pruned(
    counts: sp.csr_array, ranks: list[int], template: GammaPoissonMF, test: sp.csr_array | None
) -> list[GammaPoissonMF]:
    """Fits of the ranks that pruning from the largest comes by."""
    largest = clone(template).set_params(n_components=ranks[-1]).fit(counts)
    report = largest.rank_report(counts, test)
    fits = [largest.refitted(counts, m) for m in report.models if m.n_components in ranks]
    return sorted([*fits, largest], key=lambda fit: int(fit.n_components))


def _compare(
    fits: list[GammaPoissonMF], counts: sp.csr_array, test: sp.csr_array | None, n_features: int
) -> RankSelection:
    """The fits, in ascending order of rank, side by side."""
    values = [_log_likelihood(fit, counts) for fit in fits]
    ranks = np.array([fit.n_components for fit in fits])
    log_likelihood = np.array([value.total for value in values])
    learned = fits[0].learn_alpha in (True, "component")
    price = 0.5 * (n_features + learned) * math.log(max(counts.shape[0], 2))
    bic = log_likelihood - price * ranks
    held_out = error = None
    chosen = int(bic.argmax())
    if test is not None:
        scores = [_log_likelihood(fit, test) for fit in fits]
        held_out = np.array([score.total for score in scores])
        best = scores[int(held_out.argmax())]
        error = np.array([_error_of_difference(score, best) for score in scores])
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


def _log_likelihood(fit: GammaPoissonMF, counts: sp.csr_array) -> LogLikelihood:
    """With the same draws for all, as far as they go."""
    return comparison_log_likelihood(counts, fit.model_, 0, fit.n_jobs, n_particles=256)


def _error_of_difference(a: LogLikelihood, b: LogLikelihood) -> float:
    """The standard error of a's total less b's, over samples like these."""
    differences = a.per_sample - b.per_sample
    return float(differences.std(ddof=1)) * math.sqrt(differences.size)
