"""How samples were observed: their exposures, and the entries that nobody looked at.

With exposure s_n > 0 and m_nf = 1 where entry (n, f) was observed, the counts of a sample are
x_nf ~ Poisson(s_n [W h_n]_f) where m_nf = 1. Given C, the activation h_kn is Gamma with the rate
R_kn = β_k + s_n Σ_f m_nf w_fk instead of β_k + S_k; otherwise a sample is as without exposures,
with the event probabilities p_fkn = s_n w_fk / R_kn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts, is_frame
from gapmf.distributions import log_one_plus
from gapmf.errors import InvalidInputError
from gapmf.model import GaP
from gapmf.types import Array
from gapmf.validation import as_float, check_option

SMALLEST, LARGEST = 1e-100, 1e100  # exposures


@dataclass(frozen=True, eq=False)
class Observation:
    """Exposures and observed entries of N samples. It does not change.

    Attributes
    ----------
    exposure : array, (N,)
        s_n > 0.
    entries : csr_array, (N, F), or None
        Ones at the observed entries of a sample, or at the others: whichever are fewer. None if
        all were observed.
    are_observed : array of bool, (N,), or None
        Which of the two `entries` has of each sample. It is decided sample by sample, so that
        what is computed of one does not depend on the others.
    """

    exposure: Array
    entries: sp.csr_array | None = None
    are_observed: NDArray[np.bool_] | None = None

    @property
    def n_samples(self) -> int:
        """N."""
        return int(self.exposure.size)

    def take(self, rows: NDArray[Any]) -> Observation:
        """Return the observation of some samples."""
        if self.entries is None or self.are_observed is None:
            return Observation(self.exposure[rows])
        return Observation(self.exposure[rows], self.entries[rows], self.are_observed[rows])

    def norms(self, W: Array) -> Array:
        """s_n Σ_f m_nf w_fk, (N, K): the expected total of component k at h_kn = 1."""
        seen = W.sum(axis=0)
        if self.entries is not None and self.are_observed is not None:
            listed = np.asarray(self.entries @ W)
            seen = np.where(self.are_observed[:, None], listed, np.maximum(seen - listed, 0.0))
        return np.asarray(self.exposure[:, None] * seen)

    def rates(self, model: GaP) -> Array:
        """R_kn = β_k + s_n Σ_f m_nf w_fk, (N, K)."""
        return self.norms(model.W) + model.beta

    def unit_rates(self, model: GaP) -> Array:
        """R_kn / s_n, (N, K): w_fk divided by it is p_fkn, as w_fk / (S_k + β_k) is without s."""
        return self.rates(model) / self.exposure[:, None]

    def log_normalisers(self, model: GaP) -> Array:
        """Σ_k α_k log(R_kn / β_k), (N,): minus the log-probability of a sample without counts."""
        logs = log_one_plus(self.norms(model.W), model.beta)
        return np.asarray((logs * model.alpha).sum(axis=1))  # no BLAS: rows do not depend on others

    def exposed_sums(self, h: Array) -> Array:
        """Σ_n m_nf s_n h_kn, (F, K), or (K,) if all entries were observed."""
        exposed = self.exposure[:, None] * h
        if self.entries is None or self.are_observed is None:
            return np.asarray(exposed.sum(axis=0))
        signed = np.where(self.are_observed[:, None], exposed, -exposed)
        rest = exposed[~self.are_observed].sum(axis=0)
        return np.asarray(np.maximum(rest + self.entries.T @ signed, 0.0))

    def totals(self, n_features: int) -> Array:
        """Σ_n m_nf s_n, (F,): the exposure of each feature."""
        sums = self.exposed_sums(np.ones((self.n_samples, 1)))
        return np.broadcast_to(sums.reshape(-1), (n_features,)).copy()

    def hide(
        self, share: float, n_features: int, rng: np.random.Generator
    ) -> tuple[Observation, NDArray[np.bool_]]:
        """Return the observation without a random share of its entries, and which samples lost any.

        A feature that would be observed nowhere keeps all of its entries.
        """
        if self.entries is None or self.are_observed is None:
            nothing = sp.csr_array((self.n_samples, n_features), dtype=np.float64)
            seen = _flip(nothing, np.ones(self.n_samples, dtype=bool))
        else:
            seen = _flip(self.entries, ~self.are_observed)
        row = np.repeat(np.arange(self.n_samples), np.diff(seen.indptr))
        feature = seen.indices.astype(np.int64)
        hidden = rng.random(row.size) < share
        left = np.bincount(feature[~hidden], minlength=n_features)
        hidden &= left[feature] > 0
        row_kept, kept = row[~hidden], feature[~hidden]
        shape = self.n_samples, n_features
        left_over = sp.csr_array((np.ones(kept.size), (row_kept, kept)), shape=shape)
        lost = np.bincount(row[hidden], minlength=self.n_samples) > 0
        return Observation(self.exposure, *_shorter(left_over)), lost

    def n_unobserved(self, n_features: int) -> int:
        """Return how many entries were not observed."""
        if self.entries is None or self.are_observed is None:
            return 0
        listed = np.diff(self.entries.indptr)
        return int(np.where(self.are_observed, n_features - listed, listed).sum())

    def mask(self, rows: NDArray[Any], n_features: int) -> NDArray[np.bool_]:
        """Return which entries of some samples were observed: dense, (len(rows), F)."""
        if self.entries is None or self.are_observed is None:
            return np.ones((len(rows), n_features), dtype=bool)
        return np.asarray((self.entries[rows].toarray() > 0) == self.are_observed[rows][:, None])

    def keep(self, counts: sp.csr_array) -> sp.csr_array:
        """Return the counts without those of entries that were not observed."""
        if self.entries is None or self.are_observed is None:
            return counts
        row = np.repeat(np.arange(self.n_samples), np.diff(counts.indptr))
        marked = sp.csr_array(
            (np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape
        )
        both = (marked + 2.0 * self.entries).tocsr()  # 1: counts alone, 2: entries alone, 3: both
        both.sort_indices()
        listed = both.data[both.data != 2.0] == 3.0
        kept = listed == self.are_observed[row]
        ends = np.concatenate([[0], np.cumsum(kept)])
        return sp.csr_array(
            (counts.data[kept], counts.indices[kept], ends[counts.indptr]), shape=counts.shape
        )

    def keys(self) -> list[bytes]:
        """Return what tells samples with equal counts apart, one key per sample."""
        exposures = [value.tobytes() for value in self.exposure.astype("<f8")]
        if self.entries is None or self.are_observed is None:
            return exposures
        starts, features = self.entries.indptr, self.entries.indices.astype("<i8")
        return [
            own + (b"o" if flag else b"u") + features[starts[n] : starts[n + 1]].tobytes()
            for n, (own, flag) in enumerate(zip(exposures, self.are_observed, strict=True))
        ]


def rates_of(model: GaP, observation: Observation | None) -> Array:
    """Return R of each sample, (N, K), or S + β of all, (K,)."""
    if observation is None:
        return model.column_norms + model.beta
    return observation.rates(model)


def check_exposure(exposure: Any, counts: sp.csr_array) -> Array | None:
    """Return exposures (N,): one number for all samples, or one for each; None for all 1."""
    if exposure is None:
        return None
    N = counts.shape[0]
    array = as_float(exposure, "exposure", '"total", a number, or one number for each sample')
    if array.shape not in ((), (N,)):
        raise InvalidInputError(
            f"exposure has shape {array.shape}, but there are {N} samples: give one number for "
            "all, or one for each sample"
        )
    bad = ~((array >= SMALLEST) & (array <= LARGEST))
    if bad.any():
        place = f"exposure[{int(bad.argmax())}]" if array.ndim else "exposure"
        raise InvalidInputError(
            f"{place} is {float(array.flat[int(bad.argmax())])}: exposures must be finite and "
            "above 0; leave out samples that were not exposed at all"
        )
    return None if (array == 1.0).all() else np.broadcast_to(array, (N,)).copy()


def check_observed(
    observed: Any, counts: sp.csr_array
) -> tuple[sp.csr_array, NDArray[np.bool_]] | None:
    """Return `entries` and `are_observed` of an Observation from a mask; None if all are."""
    if observed is None:
        return None
    if hasattr(observed, "to_numpy"):
        observed = observed.to_numpy()
    matrix: Any = observed
    if sp.issparse(observed):
        observed = sp.csr_array(matrix)
    else:
        try:
            observed = np.asarray(observed)
        except ValueError:
            observed = np.array(None)  # ragged
    mask: Any = observed
    values = mask.data if sp.issparse(observed) else mask
    if observed.shape != counts.shape:
        raise InvalidInputError(
            f"observed must have the shape {counts.shape} of X, True where an entry was observed, "
            f"but has shape {observed.shape}"
        )
    numbers = values.dtype.kind in "buif"
    if not (numbers and np.isin(values, (0, 1)).all()):
        raise InvalidInputError(
            "observed must hold True (or 1) where an entry was observed, and False (or 0) where it "
            "was not, and nothing else"
        )
    n_observed = int(np.count_nonzero(values))
    size = counts.shape[0] * counts.shape[1]
    if n_observed == size:
        return None
    entries = sp.csr_array(mask).astype(bool)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    return _shorter(entries)


def _shorter(mask: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.bool_]]:
    """Return `entries` and `are_observed` of an Observation, from the observed entries."""
    many = 2 * np.diff(mask.indptr) > mask.shape[1]
    return _flip(mask, many), ~many


def _flip(mask: sp.csr_array, rows: NDArray[np.bool_]) -> sp.csr_array:
    """Return a sparse mask, in some rows with the entries that it does not have."""
    N, F = mask.shape
    parts = []
    for n in range(N):
        listed = mask.indices[mask.indptr[n] : mask.indptr[n + 1]]
        parts.append(np.setdiff1d(np.arange(F), listed) if rows[n] else np.sort(listed))
    starts = np.concatenate([[0], np.cumsum([part.size for part in parts])])
    features = np.concatenate(parts)
    return sp.csr_array((np.ones(features.size), features, starts), shape=(N, F))


def observe(
    X: Any,
    exposure: Any = None,
    observed: Any = None,
    *,
    mean_total: float | None = None,
    **options: Any,
) -> tuple[sp.csr_array, Observation | None, float | None]:
    """Return counts, how they were observed, and what totals were divided by, if they were.

    exposure="total" is the total of each sample, divided by `mean_total`, or by the mean total of
    these samples. observed="nan" takes missing values in a dense X for unobserved. `options` are
    those of `check_counts`.
    """
    if isinstance(observed, Observation):  # checked before, with its exposures
        return observed.keep(check_counts(X, **options)), observed, None
    if isinstance(observed, str):
        check_option(observed, ("nan",), "observed")
        X, observed, labels = split_missing(X)
        options = {"labels": labels} | options
    counts = check_counts(X, **options)
    if not isinstance(exposure, str):
        return *check_observation(counts, exposure, observed), None
    check_option(exposure, ("total",), "exposure")
    seen, _ = check_observation(counts, None, observed)
    totals = np.asarray(seen.sum(axis=1)).astype(np.float64)
    if not totals.all():
        raise InvalidInputError(
            f"row {int(totals.argmin())} of X has no counts, so exposure='total' would be 0 there: "
            "leave such samples out, or give exposures"
        )
    mean_total = float(totals.mean()) if mean_total is None else mean_total
    return *check_observation(counts, totals / mean_total, observed), mean_total


def merge_missing(observed: Any, missing: Any) -> Any:
    """Return what says which entries were observed, of a mask and missing="nan"."""
    if missing is None:
        return observed
    check_option(missing, ("nan",), "missing")
    if observed is not None and not isinstance(observed, str):
        raise InvalidInputError(
            "missing='nan' takes missing values of X for unobserved, and observed is a mask: give "
            "one of the two"
        )
    return "nan"


def split_missing(X: Any) -> tuple[Any, NDArray[np.bool_], list[Any] | None]:
    """Return a dense X with zeros for missing values, where it has values, and names of columns."""
    if sp.issparse(X):
        raise InvalidInputError(
            "missing='nan' is for arrays and data frames, but X is sparse: give a mask of "
            "observed entries instead"
        )
    labels = list(X.columns) if is_frame(X) else None
    values = np.asarray(X.to_numpy() if is_frame(X) else X)
    if values.dtype.kind == "O":
        missing = [_is_missing(value) for value in values.reshape(-1)]
        present = ~np.array(missing, dtype=bool).reshape(values.shape)
    else:
        present = np.asarray(values == values)  # noqa: PLR0124 (NaN is not)
    return np.where(present, values, 0), present, labels


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":
        return True
    return bool(value != value)  # noqa: PLR0124


def check_all_observed_somewhere(observation: Observation | None, n_features: int) -> None:
    """Raise an error if a feature was observed in no sample: a fit learns nothing about it."""
    if observation is not None and observation.entries is not None:
        alike = replace(observation, exposure=np.ones(observation.n_samples))  # exact sums
        nowhere = np.flatnonzero(alike.totals(n_features) == 0.0)
        if nowhere.size:
            raise InvalidInputError(
                f"feature {nowhere[0]} is observed in no sample, so nothing can be learned about "
                f"it ({nowhere.size} such feature(s)): leave it out of X"
            )


def check_observation(
    counts: sp.csr_array, exposure: Any = None, observed: Any = None
) -> tuple[sp.csr_array, Observation | None]:
    """Return the counts of observed entries, and how they were observed; None if all alike.

    That is None without exposures and masks, and where all exposures are 1 and all entries were
    observed: results are then the same to the bit.
    """
    s, mask = check_exposure(exposure, counts), check_observed(observed, counts)
    if s is None and mask is None:
        return counts, None
    s = np.ones(counts.shape[0]) if s is None else s
    found = Observation(s) if mask is None else Observation(s, *mask)
    return found.keep(counts), found
