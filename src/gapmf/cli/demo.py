"""`gapmf demo`: handwritten digits, from counts to components that can be defended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

from gapmf.cli.data import warnings_said
from gapmf.cli.pictures import blocks, draw
from gapmf.counts import check_counts
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.predictive import document_completion, split_tokens

Array = NDArray[np.float64]

K = 12
SIDE = 8
_N_TEST = 200
_N_REPORT = 150
_FLOOR = 1e-3  # of the mean picture in each prediction of NMF, which may rule a count out


def run(seed: int, output: Path, jobs: int, console: Console | None = None) -> None:
    """Print the tour."""
    console = console or Console(highlight=False)
    start = time.perf_counter()
    train, test = _data(seed)
    console.print(
        f"[bold]gapmf[/] on scikit-learn's handwritten digits: {train.shape[0]} pictures of 8 × 8 "
        f"pixels, each a count from 0 to 16; {test.shape[0]} more are held out. Every picture is "
        "a sum of parts, in Gamma-distributed amounts that are integrated out. "
        f"{K} parts are fitted. (The very first run compiles, for half a minute.)\n"
    )
    with warnings_said():
        est = GammaPoissonMF(
            K,
            learn_alpha="shared",
            random_state=seed,
            n_jobs=jobs,
            verbose=1,
            smoothing=0.001,
            tol=1e-4,
        ).fit(train)
    _say_fit(console, est)
    _show_components(console, est, output)
    _say_ranks(console, est, train)
    _compare(console, est, train, test, seed, jobs)
    console.print(
        f"[dim]{time.perf_counter() - start:.0f} seconds in all.[/]\n\n"
        "With your own counts, rows being samples:\n"
        "  [green]gapmf fit DATA -k 20 --learn-alpha -o my.gapmf[/]   a .csv, .mtx, .h5ad, text …\n"
        "  [green]gapmf topics my.gapmf[/]                            what the components are\n"
        "  [green]gapmf score my.gapmf NEW_DATA[/]                    how well they predict\n"
        "or in Python: [green]GammaPoissonMF(20).fit(X).rank_report(X)[/]"
    )


def _data(seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    X = check_counts(load_digits().data)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    return X[order[_N_TEST:]], X[order[:_N_TEST]]


def _say_fit(console: Console, est: Any) -> None:
    console.print(
        f"\n{est.n_iter_} iterations, {est.history_['seconds'][-1]:.1f} s. The learned shape of "
        f"the amounts is α = {est.alpha_[0]:.2f}: below 1, most parts are absent from most "
        "pictures. The parts, by their share of all counts:\n"
    )


def _show_components(console: Console, est: Any, output: Path) -> None:
    order = np.argsort(-est.model_.shares, kind="stable")
    titles = [f"{est.model_.shares[k]:.1%}" for k in order]
    pictures = est.components_[order].reshape(-1, SIDE, SIDE)
    console.print(blocks(pictures, titles, console.width), markup=False, soft_wrap=True)
    if draw(pictures, titles, output):
        console.print(f"The same as a picture: {output}\n")
    else:
        console.print("With matplotlib installed, gapmf\\[plot], they are drawn to a .png too.\n")


def _say_ranks(console: Console, est: Any, train: sp.csr_array) -> None:
    report = est.rank_report(train[:_N_REPORT])
    console.print(
        f"[bold]How many are needed?[/] For {_N_REPORT} of the pictures, removing a part and "
        "refitting the others costs log-likelihood, and BIC would pay "
        f"{report.price:.0f} nats for a part. Removed one by one while they are worth less, "
        f"[bold]{report.rank} of {K}[/] are left. With all pictures there is more to say for each: "
        "est.rank_report(X) has the table.\n"
    )


def _compare(
    console: Console, est: Any, train: sp.csr_array, test: sp.csr_array, seed: int, jobs: int
) -> None:
    """Held-out pictures: the likelihood of whole ones, and of a half given the other."""
    table = Table(box=SIMPLE_HEAD, title="Held-out pictures", title_justify="left")
    table.add_column("model")
    table.add_column("log p, nats a count", justify="right")
    table.add_column("perplexity", justify="right")
    one = GammaPoissonMF(1, learn_alpha="shared", random_state=seed, smoothing=0.001).fit(train)
    for name, fitted in (("gapmf, 1 component", one), (f"gapmf, {K} components", est)):
        found = fitted.log_likelihood(test)
        completed = document_completion(test, fitted._ask(test)[1], random_state=seed, n_jobs=jobs)
        table.add_row(
            name,
            f"{found.total / test.sum():.4f} ± {found.std_error / test.sum():.4f}",
            f"{completed.perplexity:.2f}",
        )
    table.add_row(
        f"scikit-learn's NMF, {K}",
        "has none",
        f"{_perplexity_of_nmf(train, test, seed):.2f}",
    )
    console.print(table)
    console.print(
        "log p: the marginal likelihood of whole pictures, ± its standard error. Perplexity: half "
        "of a picture's counts is shown, and where the others are is predicted; 64 would be "
        "guessing, less is better. NMF (Kullback-Leibler) fits the amounts to the half that it "
        "sees; gapmf averages over all that are plausible.\n"
    )


def _perplexity_of_nmf(train: sp.csr_array, test: sp.csr_array, seed: int) -> float:
    """The same task for scikit-learn's NMF with the Kullback-Leibler divergence."""
    nmf = NMF(
        K, solver="mu", beta_loss="kullback-leibler", init="nndsvda", max_iter=500,
        random_state=seed, tol=1e-4,
    )  # fmt: skip
    with warnings_said():
        nmf.fit(train.astype(float))
        shown, rest = split_tokens(test, 0.5, np.random.default_rng(seed))
        rates = nmf.transform(shown.astype(float)) @ nmf.components_
    mean = np.asarray(train.sum(axis=0)).ravel() / train.sum()
    p = rates / np.maximum(rates.sum(axis=1, keepdims=True), 1e-300)
    p = (1.0 - _FLOOR) * p + _FLOOR * (mean + 1e-6)
    entries = rest.tocoo()
    log_p = np.log(p[entries.coords]) @ entries.data
    return float(np.exp(-log_p / rest.sum()))
