"""The E-step without Monte Carlo: exact posterior sums, the likelihood, its gradient, and the
expected number of samples in which each component size L_kn has each value.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, psi

from gapmf.csr import distinct_rows, sum_entries, take_block
from gapmf.distributions import log_one_plus, log_rising
from gapmf.engines.base import Statistics
from gapmf.kernels import polynomial
from gapmf.kernels import quadrature_sums as posterior
from gapmf.likelihood.exact import block_probabilities
from gapmf.likelihood.marginal import log_normaliser
from gapmf.likelihood.planning import (
    QuadratureBlock,
    check_support,
    cut_blocks,
    group_by_support,
    plan_quadrature,
    predict,
    refuse_work,
    support,
)
from gapmf.model import GaP
from gapmf.observation import Observation, rates_of
from gapmf.parallel import for_each
from gapmf.types import Array, Index

MAX_ITERATION_COST = 1e11  # operations per E-step: a minute or two of one core


@dataclass(frozen=True)
class Expectation:
    """The result of an exact E-step at a model: the value of C_ML, its gradient, and sums.

    The gradient of −log p(V | W) is h_sum − ratio_sum, where w_fk = 0 too. When α is learned,
    rising (K,) is Σ_n E[ψ(α_k + L_kn) − ψ(α_k)]. log_rates (K,) is Σ_n log(R_kn/β_k), if samples
    have rates of their own.
    """

    log_likelihood: float
    statistics: Statistics
    rising: Array | None = None
    log_rates: Array | None = None
    log_prior: float = 0.0
    """What the prior on directions adds to the objective."""

    @property
    def objective(self) -> float:
        """log p(V | W), with the prior's part."""
        return self.log_likelihood + self.log_prior

    @property
    def gradient(self) -> Array:
        """∂C_ML/∂w_fk = Σ_n m_nf s_n E[h_kn] − Σ_n v_fn E[h_kn / [Wh_n]_f], (F, K)."""
        assert self.statistics.ratio_sum is not None
        return self.statistics.below - self.statistics.ratio_sum

    def slope_by_log_alpha(self, model: GaP) -> Array:
        """d log p(V)/d log α_k with the means (α_k/β_k) w_fk, not w_fk, held fixed: (K,).

        At fixed W it is α_k Σ_n E[ψ(α_k + L_kn) − ψ(α_k)] − N α_k log(1 + S_k/β_k); and w_fk,
        being the mean times β_k/α_k, shrinks as α_k grows.
        """
        assert self.rising is not None
        s, norms = self.statistics, model.column_norms
        if self.log_rates is not None:
            by_scale = (model.W * s.below).sum(axis=0) - s.c_sum.sum(axis=0)
            return np.asarray(model.alpha * (self.rising - self.log_rates) + by_scale)
        at_fixed_w: Array = self.rising - s.n_draws * log_one_plus(norms, model.beta)
        return np.asarray(model.alpha * at_fixed_w + (norms * s.h_sum - s.c_sum.sum(axis=0)))


class ExactExpectation:
    """Exact E-steps (the expectations of Eqs. 35 to 37) over one data set, loaded once.

    Equal samples are computed once. Blocks and quadrature rules depend on α and on which columns
    can have produced which sample; they are kept until that changes.

    Parameters
    ----------
    X : csr_array of int64, (N, F), canonical
    n_jobs : int, optional
    learn_alpha : {None, "component", "shared"}
        Whether fits to these data learn α as well, for each component or one for all. Every
        E-step then has what the slope by α needs, on about 1.6 times as many nodes per stick.
    weights : array, (N,), optional
        How many times each sample counts: positive numbers, 1 by default.
    observation : Observation, optional
        Exposures and observed entries.
    pseudo_count : float
        η of the prior on directions.
    """

    def __init__(
        self,
        X: sp.csr_array,
        n_jobs: int | None = None,
        learn_alpha: str | None = None,
        weights: Array | None = None,
        observation: Observation | None = None,
        pseudo_count: float = 0.0,
    ) -> None:
        self.pseudo_count = pseudo_count
        weights = np.ones(X.shape[0]) if weights is None else weights
        first, inverse = distinct_rows(X, None if observation is None else observation.keys())
        self.observation = None if observation is None else observation.take(first)
        self.rows: sp.csr_array = X[first]
        self.times: Array = np.asarray(np.bincount(inverse, weights), dtype=np.float64)
        self.n_samples, self.n_features = float(weights.sum()), X.shape[1]
        self.n_tokens = float(X.sum(axis=1) @ weights)
        self.exposures: Array = np.full(X.shape[1], self.n_samples)  # Σ_n m_nf s_n
        if observation is not None:
            self.exposures[:] = observation.exposed_sums(weights[:, None]).reshape(-1)
        self.mean_counts: Array = np.asarray(X.T @ weights) / self.exposures
        self.n_jobs = n_jobs
        self.learn_alpha = learn_alpha
        self.totals = np.asarray(self.rows.sum(axis=1)).astype(np.int64)
        factorials = sum_entries(self.rows.indptr, gammaln(self.rows.data + 1.0))
        self._log_factorials = float(self.times @ factorials)
        self._pattern = self._meets = b""
        self._works_kept: list[QuadratureBlock] = []

    def learning(self, learn_alpha: str | None) -> ExactExpectation:
        """The same data, with α learned in another way."""
        other = copy(self)
        other.learn_alpha = learn_alpha
        other._pattern = other._meets = b""
        return other

    def e_step(self, model: GaP) -> Expectation:
        """Compute the E-step at a model: the exact expectations of Eqs. 35 to 37."""
        works = self._works(model)
        K, own, rates = model.n_components, self.observation, self._unit_rates(model)
        c_sum, ratio = np.zeros((self.n_features, K)), np.zeros((self.n_features, K))
        log_likelihood = -self.n_samples * log_normaliser(model) - self._log_factorials
        if own is not None:
            log_likelihood = -float(self.times @ own.log_normalisers(model)) - self._log_factorials
        rising, L_sum = np.zeros(K), np.zeros((self.times.size, K))
        for work, (value, c, r, up) in zip(works, self._sums(works, model, rates), strict=True):
            block = work.block
            place = np.ix_(block.features, work.columns)
            log_likelihood += value
            rising[work.columns] += up
            if rates is None:
                c_sum[place] += c
                ratio[place] += r
            else:  # entry by entry: a feature may have several
                np.add.at(c_sum, place, c)
                np.add.at(ratio, place, r)
                rows = np.repeat(work.members, np.diff(block.indptr))
                np.add.at(L_sum, np.ix_(rows, work.columns), c)
        ratio += self._unmet(works, model, rates)
        found_rising = rising if self.learn_alpha else None
        eta, prior = self.pseudo_count, model.log_prior(self.pseudo_count)
        if own is None:
            h_sum = (self.n_samples * model.alpha + c_sum.sum(axis=0)) / rates_of(model, None)
            statistics = Statistics(c_sum, h_sum, self.n_samples, ratio, pseudo=eta)
            return Expectation(log_likelihood, statistics, found_rising, log_prior=prior)
        h = (self.times[:, None] * model.alpha + L_sum) / own.rates(model)
        statistics = Statistics(
            c_sum,
            h.sum(axis=0),
            self.n_samples,
            ratio,
            exposed_sum=own.exposed_sums(h),
            L_sum=L_sum,
            pseudo=eta,
        )
        log_rates = self.times @ log_one_plus(own.norms(model.W), model.beta)
        return Expectation(log_likelihood, statistics, found_rising, log_rates, prior)

    def _unit_rates(self, model: GaP) -> Array | None:
        """R/s of the samples, (N, K), if they have exposures."""
        return None if self.observation is None else self.observation.unit_rates(model)

    def score(self, model: GaP) -> tuple[Array, Array]:
        """r_f = mean_n v_fn E[1/[Wh_n]_f | v_n] and its standard error, both (F,).

        With exposures, the sum over samples is divided by Σ_n m_nf s_n.

        The score test for one column more: a vanishing column's entry f is multiplied by r_f in
        an iteration of EM-C or EM-CH, so r_f > 1 says that the likelihood gains when a new
        column starts there. Its expectation is one under the true model, which is why it comes
        with its standard error over samples.
        """
        works, rates = self._works(model), self._unit_rates(model)
        own, F, N = self.observation, self.n_features, self.n_samples
        first, second, mixed = np.zeros((3, F))

        def compute(work: QuadratureBlock) -> list[Array]:
            x, times = self._inverse_rates(work, model, rates)
            place = work.block.features[work.block.indices]
            row = np.repeat(work.members, np.diff(work.block.indptr))
            exposed = x if own is None else x * own.exposure[row]
            sums = (np.bincount(place, times * part, F) for part in (x, x**2, exposed))
            return [np.asarray(part, dtype=np.float64) for part in sums]

        for x, x2, xs in for_each(compute, works, self.n_jobs):
            first += x
            second += x2
            mixed += xs
        r = first / self.exposures
        if own is None:
            return r, np.sqrt(np.maximum(second / N - r**2, 0.0) / max(N - 1, 1))
        # The variance of the residuals x_n − r m_nf s_n.
        squares = own.exposed_sums((self.times * own.exposure)[:, None]).reshape(-1)
        variance = (second - 2.0 * r * mixed + r**2 * squares) * N / max(N - 1, 1)
        return r, np.sqrt(np.maximum(variance, 0.0)) / self.exposures

    def _works(self, model: GaP) -> list[QuadratureBlock]:
        """The blocks, made anew only when other columns meet the samples than last time."""
        positive = model.W > 0
        pattern = positive.tobytes() + model.alpha.tobytes()
        if pattern != self._pattern:
            check_support(self.rows, model.W)
            meets = support(self.rows, positive).tobytes() + model.alpha.tobytes()
            if meets != self._meets:
                what = f"an exact E-step with {model.n_components} components"
                self._works_kept = plan_quadrature(
                    self.rows,
                    model.W,
                    model.alpha,
                    what,
                    MAX_ITERATION_COST,
                    share=True,
                    logs=self.learn_alpha is not None,
                    own=self.observation is not None,
                )
            self._pattern, self._meets = pattern, meets
        return self._works_kept

    def _sums(
        self, works: list[QuadratureBlock], model: GaP, rates: Array | None
    ) -> list[tuple[float, Array, Array, Array]]:
        """For each block: its part of the log-likelihood, of c_sum, ratio_sum and `rising`."""
        common = model.column_norms + model.beta

        def compute(work: QuadratureBlock) -> tuple[float, Array, Array, Array]:
            block, columns = work.block, work.columns
            times, n = self.times[work.members], self.totals[work.members].astype(float)
            rate = common[columns]
            if rates is not None:
                row = np.repeat(work.members, np.diff(block.indptr))
                rate = rates[np.ix_(row, columns)]
            p, log_scale = block_probabilities(model, rates, block, work.members, columns)
            top, total, ratio, log_theta = posterior.sums(
                block.indptr, block.indices, block.counts, times, p, *work.rule, work.logs
            )
            log_mean = top + np.log(total)
            log_mean += sum_entries(block.indptr, block.counts * log_scale[block.indices])
            alpha = model.alpha[columns]
            value = float(times @ (log_rising(alpha.sum(), n) + log_mean))
            # E[ψ(α_k + L_k)] = ψ(A + |v|) + E[log θ_k], given θ as well as given v
            rising = log_theta + times @ psi(alpha.sum() + n) - times.sum() * psi(alpha)
            with np.errstate(over="ignore"):  # where w is next to nothing the slope may be inf
                return value, p * ratio, ratio * np.exp(-log_scale)[:, None] / rate, rising

        return for_each(compute, works, self.n_jobs)

    def _inverse_rates(
        self, work: QuadratureBlock, model: GaP, rates: Array | None
    ) -> tuple[Array, Array]:
        """v_fn E[1/[Wh_n]_f | v_n] and the number of equal samples, for each entry of a block.

        1/[Wh]_f = 1/(s (Pθ)_f) with s ~ Gamma(A + |v|, 1) independent of θ, and Σ_k θ_k = 1.
        """
        block, columns = work.block, work.columns
        p, log_scale = block_probabilities(model, rates, block, work.members, columns)
        _, _, ratio = posterior.moments(block.indptr, block.indices, block.counts, p, *work.rule)
        row = np.repeat(work.members, np.diff(block.indptr))
        shape = model.alpha[columns].sum() + self.totals[row] - 1.0
        with np.errstate(over="ignore"):
            inverse = ratio.sum(axis=1) * np.exp(-log_scale)[block.indices]
        if self.observation is not None:  # p and s stand for h' = s_n h
            inverse *= self.observation.exposure[row]
        return block.counts * inverse / shape, self.times[row]

    def _unmet(self, works: list[QuadratureBlock], model: GaP, rates: Array | None) -> Array:
        """Σ_n v_fn E[h_kn / [Wh_n]_f] over the samples that column k cannot have produced.

        There h_kn keeps its prior, updated by having produced nothing, and is independent of
        the rest: its mean is α_k / (β_k + S_k).
        """
        mean = model.alpha / rates_of(model, self.observation)
        unmet = np.zeros((self.n_features, model.n_components))
        for work in works:
            others = np.setdiff1d(np.arange(model.n_components), work.columns)
            if others.size:
                x, times = self._inverse_rates(work, model, rates)
                features = work.block.features
                if rates is None:
                    total = np.bincount(work.block.indices, times * x, features.size)
                    unmet[np.ix_(features, others)] += np.outer(total, mean[others])
                else:
                    row = np.repeat(work.members, np.diff(work.block.indptr))
                    each = (times * x)[:, None] * mean[np.ix_(row, others)]
                    np.add.at(unmet, np.ix_(features, others), each)
        return unmet


def expected_sizes(expect: ExactExpectation, model: GaP) -> Array:
    """Σ_n P(L_kn = l | v_n) for l = 0 … max_n |v_n|: (K, max_n |v_n| + 1).

    From the law of L itself, grown a token at a time: C(|v|+K, K) steps a sample. A component
    that alone can have produced a sample has L = |v|, and one that cannot have, L = 0.
    """
    total = expect.totals
    sizes = np.zeros((model.n_components, int(total.max(initial=0)) + 1))
    tasks = plan_sizes(expect, model)
    rates = expect._unit_rates(model)
    for members, columns in group_by_support(expect.rows, model.W):
        others = np.setdiff1d(np.arange(model.n_components), columns)
        sizes[others, 0] += expect.times[members].sum()
        if columns.size == 1:
            np.add.at(sizes[columns[0]], total[members], expect.times[members])

    def compute(task: tuple[Index, Index]) -> Array:
        members, columns = task
        block = take_block(expect.rows, members, own=rates is not None)
        p, _ = block_probabilities(model, rates, block, members, columns)
        part = np.zeros((columns.size, int(total[members].max()) + 1))
        times, alpha = expect.times[members], model.alpha[columns]
        polynomial.add_sizes(block.indptr, block.indices, block.counts, times, p, alpha, part)
        return part

    for (_, columns), part in zip(tasks, for_each(compute, tasks, expect.n_jobs), strict=True):
        sizes[columns, : part.shape[1]] += part
    return sizes


def plan_sizes(expect: ExactExpectation, model: GaP) -> list[tuple[Index, Index]]:
    """Blocks of samples that several columns can have produced, with those columns.

    Refused before anything is computed when an E-step would take too long.
    """
    N, size = expect.rows.shape[0], np.diff(expect.rows.indptr)
    cost = np.zeros(N)
    groups = [group for group in group_by_support(expect.rows, model.W) if group[1].size > 1]
    for members, columns in groups:
        costs = predict(expect.rows[members], model.alpha[columns])
        cost[members] = costs.operations[1]
    what = f"an exact E-step that learns alpha, with {model.n_components} components,"
    refuse_work(what, float(cost.sum()), MAX_ITERATION_COST)
    # A block has one array for all its samples, made for the largest: so they are of a size.
    scale = np.ceil(4.0 * np.log2(np.maximum(expect.totals, 1))).astype(np.int64)
    return [
        (chosen, columns)
        for members, columns in groups
        for chosen in cut_blocks(members, scale, size, cost)
    ]
