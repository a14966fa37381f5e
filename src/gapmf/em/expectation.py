"""The E-step without Monte Carlo: exact posterior sums, the likelihood and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from gapmf.distributions import log_rising
from gapmf.kernels import posterior
from gapmf.likelihood.cost import refuse_work
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.marginal import log_normaliser
from gapmf.likelihood.plan import Work, columns_met, plan_quadrature
from gapmf.likelihood.posterior import refuse_impossible
from gapmf.m_steps import Statistics
from gapmf.model import GaP
from gapmf.parallel import for_each
from gapmf.rows import distinct_rows, sum_entries

Array = NDArray[np.float64]

MAX_ITERATION_COST = 1e11  # operations an E-step: a minute or two of one core


@dataclass(frozen=True)
class Expectation:
    """The result of an exact E-step at a model: the value of C_ML, its gradient, and sums.

    The gradient of −log p(V | W) is h_sum − ratio_sum, where w_fk = 0 too.
    """

    log_likelihood: float
    statistics: Statistics

    @property
    def gradient(self) -> Array:
        """∂C_ML/∂w_fk = Σ_n E[h_kn] − Σ_n v_fn E[h_kn / [Wh_n]_f], (F, K)."""
        return self.statistics.h_sum - self.statistics.ratio_sum


class ExactExpectation:
    """Exact E-steps (the expectations of Eqs. 35 to 37) over one data set, loaded once.

    Equal samples are computed once. Blocks and quadrature rules depend on α and on which columns
    can have produced which sample; they are kept until that changes.

    Parameters
    ----------
    X : csr_array of int64, (N, F), canonical
    n_jobs : int, optional
    """

    def __init__(self, X: sp.csr_array, n_jobs: int | None = None) -> None:
        first, inverse = distinct_rows(X)
        self.rows: sp.csr_array = X[first]
        self.times = np.bincount(inverse).astype(float)
        self.n_samples, self.n_features = X.shape
        self.n_tokens = float(X.data.sum())
        self.mean_counts: Array = np.asarray(X.sum(axis=0)) / X.shape[0]
        self.n_jobs = n_jobs
        self._total = np.asarray(self.rows.sum(axis=1)).astype(float)
        factorials = sum_entries(self.rows.indptr, gammaln(self.rows.data + 1.0))
        self._log_factorials = float(self.times @ factorials)
        self._pattern = self._meets = b""
        self._works_kept: list[Work] = []

    def __call__(self, model: GaP, *, zeros_too: bool = False) -> Expectation:
        """The E-step. `zeros_too` fills ratio_sum where w_fk = 0 also (the gradient there)."""
        works = self._works(model)
        K, rate = model.n_components, model.beta + model.column_norms
        ratio = np.zeros((self.n_features, K))
        log_likelihood = -self.n_samples * log_normaliser(model) - self._log_factorials
        for work, (value, part) in zip(works, self._sums(works, model), strict=True):
            log_likelihood += value
            ratio[np.ix_(work.block.features, work.columns)] += part / rate[work.columns]
        c_sum = model.W * ratio
        h_sum = (self.n_samples * model.alpha + c_sum.sum(axis=0)) / rate
        if zeros_too:
            ratio += self._unmet(works, model)
        return Expectation(log_likelihood, Statistics(c_sum, h_sum, ratio, self.n_samples))

    def score(self, model: GaP) -> Array:
        """r_f = mean_n v_fn E[1/[Wh_n]_f | v_n], (F,): the score test for one column more.

        A vanishing column's entry f is multiplied by r_f in an iteration of EM-C or EM-CH, so
        r_f > 1 says that the likelihood gains when a new column starts there. Its expectation
        is one under the true model.
        """
        total = np.zeros(self.n_features)
        for work, part in self._inverse_rates(self._works(model), model):
            total[work.block.features] += part
        return total / self.n_samples

    def _works(self, model: GaP) -> list[Work]:
        """The blocks, made anew only when other columns meet the samples than last time."""
        positive = model.W > 0
        pattern = positive.tobytes() + model.alpha.tobytes()
        if pattern != self._pattern:
            refuse_impossible(self.rows, model.W)
            meets = columns_met(self.rows, positive).tobytes() + model.alpha.tobytes()
            if meets != self._meets:
                self._works_kept, cost = plan_quadrature(
                    self.rows, model.W, model.alpha, share=True
                )
                what = f"an E-step with exact moments at {model.n_components} components"
                refuse_work(what, 2.0 * float(cost.sum()), MAX_ITERATION_COST)
            self._pattern, self._meets = pattern, meets
        return self._works_kept

    def _sums(self, works: list[Work], model: GaP) -> list[tuple[float, Array]]:
        """For each block: its part of the log-likelihood, and Σ_n v_fn E[θ_k / (Pθ)_f]."""

        def compute(work: Work) -> tuple[float, Array]:
            times, n = self.times[work.members], self._total[work.members]
            log_mean, ratio = _kernel(work, model, times)
            A = model.alpha[work.columns].sum()
            return float(times @ (log_rising(A, n) + log_mean)), ratio

        return for_each(compute, works, self.n_jobs)

    def _inverse_rates(self, works: list[Work], model: GaP) -> list[tuple[Work, Array]]:
        """For each block: Σ_n v_fn E[1/[Wh_n]_f].

        1/[Wh]_f = 1/(s (Pθ)_f) with s ~ Gamma(A + |v|, 1) independent of θ, and Σ_k θ_k = 1.
        """

        def compute(work: Work) -> tuple[Work, Array]:
            A, n = model.alpha[work.columns].sum(), self._total[work.members]
            weights = self.times[work.members] / (A + n - 1.0)
            return work, _kernel(work, model, weights)[1].sum(axis=1)

        return for_each(compute, works, self.n_jobs)

    def _unmet(self, works: list[Work], model: GaP) -> Array:
        """Σ_n v_fn E[h_kn / [Wh_n]_f] over the samples that column k cannot have produced.

        There h_kn keeps its prior, updated by having produced nothing, and is independent of
        the rest: its mean is α_k / (β_k + S_k).
        """
        mean = model.alpha / (model.beta + model.column_norms)
        unmet = np.zeros((self.n_features, model.n_components))
        works = [work for work in works if work.columns.size < model.n_components]
        for work, part in self._inverse_rates(works, model):
            others = np.setdiff1d(np.arange(model.n_components), work.columns)
            unmet[np.ix_(work.block.features, others)] += np.outer(part, mean[others])
        return unmet


def _kernel(work: Work, model: GaP, weights: Array) -> tuple[Array, Array]:
    """log E[Π_f (Pθ)_f^{v_f}], (N,), and Σ_n weights_n v_fn E[θ_k / (Pθ)_f], (F, K)."""
    block, columns = work.block, work.columns
    rate = (model.column_norms + model.beta)[columns]
    p, log_scale = scaled_probabilities(model.W[np.ix_(block.features, columns)], rate)
    top, total, ratio = posterior.sums(
        block.indptr, block.indices, block.counts, weights, p, *work.rule
    )
    log_mean = top + np.log(total)
    log_mean += sum_entries(block.indptr, block.counts * log_scale[block.indices])
    return log_mean, ratio * np.exp(-log_scale)[:, None]
