"""The NIPS counts, and the log-likelihood of models of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.errors import InvalidInputError
from gapmf.io import read
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP


@dataclass(frozen=True)
class Subset:
    """Every `every`-th document, and the `n_words` most frequent words.

    The likelihood is that of every `judged`-th document of these.
    """

    every: int = 1
    n_words: int | None = None
    judged: int = 1


WHOLE = Subset()
QUICK = Subset(every=30, n_words=300, judged=5)


def find_nips(folder: Path | None) -> Path:
    """Return the file of the counts."""
    if folder is None:
        raise InvalidInputError(
            "this figure needs the NIPS counts: add --data DIR, where DIR is a folder with "
            "docword.nips.txt.gz and vocab.nips.txt; gapmf.datasets.fetch_nips(DIR) downloads them"
        )
    names = ("docword.nips.txt.gz", "docword.nips.txt")
    found = [folder / name for name in names if (folder / name).exists()]
    if not found:
        raise InvalidInputError(
            f"{folder} has neither {names[0]} nor {names[1]}: "
            f"gapmf.datasets.fetch_nips({str(folder)!r}) downloads them"
        )
    return found[0]


def load(folder: Path | None, part: Subset) -> sp.csr_array:
    """Return the counts, documents × words, or a subset of them."""
    counts = read(find_nips(folder)).counts[:: part.every]
    if part.n_words is not None:
        totals = np.asarray(counts.sum(axis=0)).ravel()
        counts = counts[:, np.sort(np.argsort(-totals, kind="stable")[: part.n_words])]
    return sp.csr_array(counts)


def judge(
    X: sp.csr_array, part: Subset, seed: int, n_particles: int | None = None
) -> tuple[int, Callable[[GaP], tuple[float, float]]]:
    """Return the number of tokens that are judged, and their log-likelihood with its error.

    With `n_particles`, every document gets so many under every model, and the same random numbers:
    a precision would lead to more of them, and so to others, for one model than for the next. By
    default, documents that are hard get more, at two to three times the cost.
    """
    judged = X[:: part.judged]
    effort: dict[str, Any] = {}
    if n_particles is not None:
        effort = {"n_particles": n_particles, "escalate": False}

    def log_likelihood(model: GaP) -> tuple[float, float]:
        ll = log_marginal_likelihood(judged, model, random_state=seed, **effort)
        return ll.total, ll.std_error

    return int(judged.sum()), log_likelihood


def describe(X: sp.csr_array) -> dict[str, Any]:
    """Return what the paper says of the data: sizes, zeros, the largest count, rare words."""
    totals = np.asarray(X.sum(axis=0)).ravel()
    return {
        "documents": X.shape[0],
        "words": X.shape[1],
        "share_of_zeros": 1.0 - X.count_nonzero() / (X.shape[0] * X.shape[1]),
        "largest_count": int(X.max()),
        "words_never": int((totals == 0).sum()),
        "words_fewer_than_ten_times": int(((totals > 0) & (totals < 10)).sum()),
    }
