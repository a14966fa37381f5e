"""`gapmf simulate` and `gapmf shard`: write counts, drawn from a model or read from a file."""

from __future__ import annotations

import csv
import gzip
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from gapmf.cli.files import echo_warnings
from gapmf.cli.options import echo
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io.shards import open_shards
from gapmf.io.streams import write_shards
from gapmf.model import GaP
from gapmf.storage import check_parent_folder, write_atomically
from gapmf.storage.output import check_output, write_text
from gapmf.validation import check_number

_DOCWORD = re.compile(r"docword.*\.txt(\.gz)?")


def simulate(
    output: Path,
    model: Path | None,
    shape: tuple[int, int, int],
    alpha: float,
    counts: float,
    seed: int,
    truth: Path | None,
) -> None:
    """Draw counts, and write them."""
    docword = _DOCWORD.fullmatch(output.name)
    if not docword and output.suffix not in _WRITERS:
        raise InvalidInputError(
            f"{output}: the name must end in .csv, .mtx, .npz or .h5ad, or be docword.NAME.txt or "
            "docword.NAME.txt.gz"
        )
    write = _write_uci if docword else _WRITERS[output.suffix]
    check_parent_folder(output)
    n_samples, F, K = shape
    rng = np.random.default_rng(seed)
    if model is None:
        source, names = random_model(F, K, alpha, counts, rng), None
    else:
        if truth is not None:
            raise InvalidInputError("--truth is for a random model: leave it out with --model")
        est = GammaPoissonMF.load(model)
        source, names = est.model_, getattr(est, "feature_names_in_", None)
    if truth is not None:
        check_output(truth, (".npz",))
        if os.path.realpath(truth) == os.path.realpath(output):
            raise InvalidInputError(f"{truth} is the output: name another file for the truth")
    X = source.sample(n_samples, random_state=rng)
    write_atomically(output, lambda temporary: write(sp.csr_array(X), names, temporary))
    if names is not None and docword:
        vocab = output.with_name("vocab" + output.name.removeprefix("docword").removesuffix(".gz"))
        write_text("".join(f"{name}\n" for name in names), vocab)
    if truth is not None:
        arrays: dict[str, Any] = {"W": source.W, "alpha": source.alpha, "beta": source.beta}
        write_atomically(truth, lambda temporary: np.savez(temporary, **arrays))
    echo(
        f"{output}: {X.shape[0]:,} samples × {X.shape[1]:,} features from "
        f"{source.n_components} components, {int(X.sum()):,} counts"
    )


def random_model(F: int, K: int, alpha: float, counts: float, rng: np.random.Generator) -> GaP:
    """Return a model with sparse columns of equal shares; `counts` is the expected total."""
    alpha = check_number(alpha, "alpha", above=0.0)
    counts = check_number(counts, "counts", above=0.0)
    directions = rng.dirichlet(np.full(F, 0.1 if F > 1 else 1.0), K).T
    return GaP(directions * (counts / (K * alpha)), alpha)


def _names(X: sp.csr_array, names: Any) -> list[str]:
    return [f"feature {f}" for f in range(X.shape[1])] if names is None else list(map(str, names))


def _write_csv(X: sp.csr_array, names: Any, path: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_names(X, names))
        for n in range(X.shape[0]):
            writer.writerow(X[[n]].toarray()[0].tolist())


def _write_mtx(X: sp.csr_array, names: Any, path: str) -> None:
    with open(path, "wb") as file:
        scipy.io.mmwrite(file, X, field="integer")


def _write_uci(X: sp.csr_array, names: Any, path: str) -> None:
    entries = X.tocoo()
    rows = np.column_stack([entries.row + 1, entries.col + 1, entries.data])
    text = "".join(f"{n} {f} {v}\n" for n, f, v in rows.tolist())
    head = f"{X.shape[0]}\n{X.shape[1]}\n{X.nnz}\n"
    content = (head + text).encode()
    Path(path).write_bytes(gzip.compress(content) if path.endswith(".gz") else content)


def _write_h5ad(X: sp.csr_array, names: Any, path: str) -> None:
    try:
        import anndata
    except ImportError as error:
        raise InvalidInputError(
            "an .h5ad file needs AnnData: pip install 'gapmf[anndata]', or write a .csv"
        ) from error
    adata = anndata.AnnData(sp.csr_matrix(X, dtype=np.float64))
    adata.obs_names = [f"cell {n}" for n in range(X.shape[0])]
    adata.var_names = _names(X, names)
    adata.write_h5ad(path)


_WRITERS: dict[str, Callable[[sp.csr_array, Any, str], Any]] = {
    ".csv": _write_csv,
    ".mtx": _write_mtx,
    ".h5ad": _write_h5ad,
    ".npz": lambda X, names, path: sp.save_npz(path, X),
}


def shard(
    data: Path, output: Path, shard_tokens: int, reading: dict[str, Any], *, quiet: bool
) -> None:
    """Write the shards, and say what they hold."""
    start = time.perf_counter()
    with echo_warnings(quiet=quiet):
        write_shards(data, output, shard_tokens=shard_tokens, **reading)
    if not quiet:
        shards = open_shards(output)
        N, F = shards.shape
        echo(
            f"{output}: {N:,} samples × {F:,} features, {shards.nnz:,} entries above 0, "
            f"{shards.sum():,} counts in {shards.n_blocks:,} "
            f"shard{'s' if shards.n_blocks > 1 else ''}, written in "
            f"{time.perf_counter() - start:.1f} s"
        )
