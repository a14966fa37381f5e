"""cNMF: the consensus of many NMF runs, as it is used for single cells."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers.protocol import Fitted, Peer, from_factors, rows_to_one
from peers.watch import Watch

RUNS = 100  # its default
DENSITY = 0.5  # its default
TPM = 1e6
QUICK, QUICK_RUNS = 1.0, 5  # with a limit of a second, cNMF is only tried


def prepared(
    train: sp.csr_array,
    ranks: list[int],
    seed: int,
    runs: int,
    folder: str,
    begin: Callable[[], None] = lambda: None,
) -> Any:
    """Return a cNMF object with its runs combined. Genes and cells without counts are left out.

    `begin` is called when the data are in the file that cNMF reads.
    """
    import anndata
    from cnmf import cNMF

    genes = np.flatnonzero(np.asarray(train.sum(axis=0)).ravel())
    some = np.flatnonzero(np.asarray(train.sum(axis=1)).ravel())
    data = anndata.AnnData(sp.csr_matrix(train[some][:, genes].astype(float)))
    data.var_names = [str(f) for f in genes]
    data.obs_names = [str(n) for n in some]
    path = Path(folder) / "counts.h5ad"
    data.write(path)
    begin()
    run = cNMF(output_dir=folder, name="run")
    run.prepare(str(path), components=ranks, n_iter=runs, seed=seed + 1, num_highvar_genes=2000)
    run.factorize(worker_i=0, total_workers=1)
    run.combine()
    return run


@contextlib.contextmanager
def quietly() -> Any:
    """Leave out what it prints, and warnings of the packages that it uses."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fit(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
    """Fit the consensus; new samples by its own refit of usages, on scaled TPM."""
    from cnmf.cnmf import load_df_from_npz

    folder = tempfile.TemporaryDirectory()
    with quietly():
        runs = RUNS if watch.limit > QUICK else QUICK_RUNS
        run = prepared(train, [K], seed, runs, folder.name, watch.begin)
        run.consensus(K, density_threshold=DENSITY, show_clustering=False, build_ref=False)
        spectra = load_df_from_npz(
            run.paths["gene_spectra_tpm"] % (K, str(DENSITY).replace(".", "_"))
        )
        scale = load_df_from_npz(run.paths["tpm_stats"])["__std"]
    variable = Path(run.paths["nmf_genes_list"]).read_text(encoding="utf-8").split()
    W = np.zeros((K, train.shape[1]))
    W[:, spectra.columns.astype(int)] = spectra.to_numpy()
    used = np.array([int(f) for f in variable])
    std = scale.loc[variable].to_numpy()

    def infer(shown: sp.csr_array) -> np.ndarray:
        _ = folder  # its settings are read from there
        total = np.maximum(np.asarray(shown.sum(axis=1), dtype=float), 1.0)
        tpm = shown[:, used].toarray() * (TPM / total)[:, None]
        with quietly():
            H = run.refit_usage(tpm / std, W[:, used] / std)
        return from_factors(W, np.where(np.asarray(shown.sum(axis=1))[:, None] > 0, H, 0.0))[1]

    return Fitted(rows_to_one(W), infer, runs)


PEERS = (
    Peer(
        "cNMF",
        "cnmf",
        f"its defaults: {RUNS} Frobenius NMF runs of 2,000 variable genes, threshold {DENSITY}",
        fit,
        has_threads=False,
    ),
)
