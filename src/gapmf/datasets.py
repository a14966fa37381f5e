"""Data sets: the paper's synthetic experiment, and the NIPS counts of its last figure."""

from __future__ import annotations

import functools
import http.client
import os
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.io import read
from gapmf.model import GaP
from gapmf.storage import write_atomically

NIPS_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/bag-of-words"
NIPS_SHAPE = (1500, 12419)
_TIMEOUT = 60.0  # seconds without an answer

# W₁* of the paper's section 6 (Eq. 50); its columns sum to one, up to rounding.
_W1 = (
    (0.638, 0.075),
    (0.009, 0.568),
    (0.044, 0.126),
    (0.309, 0.231),
)


def paper_model(scale: float = 1.0) -> GaP:
    """The truth of the paper's synthetic experiment, W* = scale · W₁* (Eq. 50).

    The paper's first data set has scale 1, its second scale 100; α = β = 1 in both.
    """
    return GaP(scale * np.array(_W1))


def paper_synthetic(
    scale: float = 1.0, n_samples: int = 100, random_state: Any = None
) -> tuple[NDArray[np.int64], GaP]:
    """Counts drawn as in the paper's synthetic experiment, and the model behind them.

    Parameters
    ----------
    scale : float
        1 for the paper's V₁, 100 for its V₂.
    n_samples : int
        N; the paper has 100.
    random_state : None, int, Generator or RandomState
        The paper's own draws are not published: ours differ with the seed.

    Returns
    -------
    X : int64 array, (n_samples, 4)
    model : GaP

    Examples
    --------
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=100, random_state=0)
    >>> X.shape, truth.n_components
    ((100, 4), 2)
    """
    model = paper_model(scale)
    return model.sample(n_samples, random_state=random_state), model


def fetch_nips(folder: str | os.PathLike[str], *, url: str = NIPS_URL) -> Path:
    """Get the NIPS counts (1,500 papers × 12,419 words) from the UCI repository.

    Parameters
    ----------
    folder : path
        Is made if it is not there. Files that are there already are not fetched again.
    url : str
        Another place that has docword.nips.txt.gz and vocab.nips.txt.

    Returns
    -------
    path : Path
        Of docword.nips.txt.gz, for `gapmf.read`; vocab.nips.txt is beside it.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.nips.txt", "docword.nips.txt.gz"):
        if not (folder / name).exists():
            write_atomically(folder / name, functools.partial(_fetch, f"{url}/{name}"))
    docword = folder / "docword.nips.txt.gz"
    shape = read(docword).counts.shape
    if shape != NIPS_SHAPE:
        raise InvalidInputError(
            f"{docword} has {shape[0]} samples × {shape[1]} features, not "
            f"{NIPS_SHAPE[0]} × {NIPS_SHAPE[1]}: these are not the NIPS counts; remove it"
        )
    return docword


def _fetch(url: str, path: str) -> None:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer, open(path, "wb") as file:
            shutil.copyfileobj(answer, file)
            promised = int(answer.headers.get("Content-Length", file.tell()))
            if file.tell() != promised:
                raise OSError(f"{file.tell()} of {promised} bytes came")
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{url} could not be fetched: {error}") from error
