"""The data sets of the paper: its synthetic experiment and the NIPS counts."""

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
_TIMEOUT = 60.0  # seconds

# W₁* of the paper's section 6 (Eq. 50); its columns sum to one, up to rounding.
_W1 = ((0.638, 0.075), (0.009, 0.568), (0.044, 0.126), (0.309, 0.231))


def paper_model(scale: float = 1.0) -> GaP:
    """Return the true model of the paper's synthetic experiment, W* = scale · W₁* (Eq. 50).

    Parameters
    ----------
    scale : float, default=1.0
        Factor of W₁*: 1 for the paper's first data set, 100 for its second.

    Returns
    -------
    GaP
        The model, with α = β = 1.

    See Also
    --------
    paper_synthetic : Draw counts from this model.

    Examples
    --------
    >>> from gapmf.datasets import paper_model
    >>> paper_model(scale=100)
    GaP(n_features=4, n_components=2, alpha=1, beta=1)
    """
    return GaP(scale * np.array(_W1))


def paper_synthetic(
    scale: float = 1.0, n_samples: int = 100, random_state: Any = None
) -> tuple[NDArray[np.int64], GaP]:
    """Draw counts as in the paper's synthetic experiment.

    The experiment is that of section 6 of [1]_.

    Parameters
    ----------
    scale : float, default=1.0
        Factor of W₁*: 1 for the paper's V₁, 100 for its V₂.
    n_samples : int, default=100
        Number of samples.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness. The paper's own draws are not published.

    Returns
    -------
    X : ndarray of int64 of shape (n_samples, 4)
        The counts.
    model : GaP
        The model that they were drawn from.

    See Also
    --------
    paper_model : Return the model alone.

    References
    ----------
    .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
       Gamma-Poisson Matrix Factorization", ICML, 2018, section 6.

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
    """Fetch the NIPS counts (1,500 papers × 12,419 words) from the UCI repository.

    Parameters
    ----------
    folder : str or path-like
        Folder for the files; it is created if needed. Existing files are not fetched again.
    url : str, default=NIPS_URL
        Address of a folder with docword.nips.txt.gz and vocab.nips.txt.

    Returns
    -------
    Path
        Path of docword.nips.txt.gz, for `gapmf.read`; vocab.nips.txt is in the same folder.

    See Also
    --------
    gapmf.read : Read the file.

    Examples
    --------
    >>> import gapmf
    >>> from gapmf.datasets import fetch_nips
    >>> table = gapmf.read(fetch_nips("data"))  # doctest: +SKIP
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
            f"{NIPS_SHAPE[0]} × {NIPS_SHAPE[1]}: these are not the NIPS counts; remove the file"
        )
    return docword


def _fetch(url: str, path: str) -> None:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer, open(path, "wb") as file:
            shutil.copyfileobj(answer, file)
            expected = int(answer.headers.get("Content-Length", file.tell()))
            if file.tell() != expected:
                raise OSError(f"{file.tell()} of {expected} bytes came")
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{url} could not be fetched: {error}") from error
