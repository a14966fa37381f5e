"""Small grey pictures: as blocks of text, and as one file.

`gapmf demo`: handwritten digits, from counts to components that can be defended.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
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

from gapmf.cli.files import echo_warnings
from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.predictive import document_completion, split_tokens
from gapmf.ranks.report import RankReport
from gapmf.storage import check_parent_folder, write_atomically

SUFFIXES = (".png", ".pdf", ".svg")
SHADES = " ░▒▓█"
_GAP = 3


def blocks(pictures: NDArray[np.float64], titles: Sequence[str], width: int) -> str:
    """Pictures (M, height, width) side by side, two characters a pixel, with their titles."""
    across = 2 * pictures.shape[2]
    per_row = max((width + _GAP) // (across + _GAP), 1)
    lines = []
    for first in range(0, len(pictures), per_row):
        some = range(first, min(first + per_row, len(pictures)))
        gap = " " * _GAP
        lines.append(gap.join(titles[m].center(across)[:across] for m in some).rstrip())
        rows = [_shaded(pictures[m]) for m in some]
        lines += [gap.join(row).rstrip() for row in zip(*rows, strict=True)]
        lines.append("")
    return "\n".join(lines)


def _shaded(picture: NDArray[np.float64]) -> list[str]:
    top = picture.max() or 1.0
    level = np.minimum((picture / top * len(SHADES)).astype(int), len(SHADES) - 1)
    return ["".join(SHADES[value] * 2 for value in row) for row in level]


def check_picture(path: Path) -> None:
    """Refuse a file that cannot be drawn to, before the work is done."""
    if path.suffix not in SUFFIXES:
        raise InvalidInputError(f"{path}: the picture must end in {', '.join(SUFFIXES)}")
    check_parent_folder(path)


def draw(pictures: NDArray[np.float64], titles: Sequence[str], path: Path) -> bool:
    """The same to a file, by its suffix; False if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    per_row = min(6, len(pictures))
    n_rows = -(-len(pictures) // per_row)
    figure = Figure(figsize=(1.25 * per_row, 1.5 * n_rows), layout="constrained")
    axes: Any = figure.subplots(n_rows, per_row, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for picture, title, ax in zip(pictures, titles, axes.flat, strict=False):
        ax.imshow(picture, cmap="magma", interpolation="nearest")
        ax.set_title(title, fontsize=9)
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return True


SIDE = 8
_FLOOR = 1e-3  # of the mean picture in each prediction: no model may rule a count out


@dataclass(frozen=True)
class Size:
    """How much the tour takes on."""

    K: int
    n_train: int
    n_test: int
    n_report: int
    tol: float


FULL = Size(K=12, n_train=1717, n_test=80, n_report=80, tol=1e-4)
QUICK = Size(K=5, n_train=200, n_test=30, n_report=40, tol=1e-3)


def run(
    seed: int, output: Path, jobs: int, *, quick: bool = False, console: Console | None = None
) -> None:
    """Print the tour."""
    check_picture(output)
    console = console or Console(highlight=False)
    size = QUICK if quick else FULL
    start = time.perf_counter()
    train, test = _data(seed, size)
    console.print(
        f"[bold]gapmf[/] on scikit-learn's handwritten digits: {size.n_train} pictures of 8 × 8 "
        f"pixels, each pixel a count from 0 to 16; {size.n_test} more are held out. The model: a "
        f"picture is a sum of {size.K} parts, in random amounts, and its counts are Poisson. The "
        "fit makes the pictures as probable as it can, with the amounts averaged over:\n"
        f'  [green]est = GammaPoissonMF({size.K}, learn_alpha="shared").fit(X)[/]\n'
        "[dim](The first run also compiles the program: up to a minute more.)[/]\n"
    )
    est = _fitted(size.K, train, size, seed, jobs, verbose=1)
    _say_fit(console, est)
    order = np.argsort(-est.model_.shares, kind="stable")
    _show_components(console, est, order, output)
    with console.status("removing parts, and fitting the others again"):
        report = est.rank_report(train[: size.n_report])
    _say_ranks(console, report, order, size)
    with console.status("predicting pictures that are held out"):
        one = _fitted(1, train, size, seed, jobs)
        table = _compared(one, est, train, test, seed)
    _say_predictions(console, table, test)
    console.print(f"[dim]{time.perf_counter() - start:.0f} seconds in all.[/]\n")
    _say_what_next(console)


def _data(seed: int, size: Size) -> tuple[sp.csr_array, sp.csr_array]:
    X = check_counts(load_digits().data)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    test, train = np.split(order[: size.n_test + size.n_train], [size.n_test])
    return X[train], X[test]


def _fitted(
    K: int, train: sp.csr_array, size: Size, seed: int, jobs: int, *, verbose: int = 0
) -> GammaPoissonMF:
    with echo_warnings():
        return GammaPoissonMF(
            K,
            learn_alpha="shared",
            random_state=seed,
            n_jobs=jobs,
            verbose=verbose,
            smoothing=_FLOOR,
            tol=size.tol,
        ).fit(train)


def _say_fit(console: Console, est: Any) -> None:
    console.print(
        f"\n{est.n_iter_} iterations, {est.history_['seconds'][-1]:.1f} s. It has learned "
        f"α = {est.alpha_[0]:.2f}, the shape of the Gamma law that the amounts follow: the "
        "smaller, the fewer parts make up most of a picture.\n"
    )


def _show_components(console: Console, est: Any, order: NDArray[np.intp], output: Path) -> None:
    console.print(
        "[bold]The parts[/], est.components_, and their share of all counts. Fuller blocks are "
        "larger weights, each part on its own scale:\n"
    )
    shares = est.model_.shares[order]
    titles = [f"{place}: {share:.1%}" for place, share in enumerate(shares, 1)]
    pictures = est.components_[order].reshape(-1, SIDE, SIDE)
    console.print(blocks(pictures, titles, console.width), markup=False, soft_wrap=True)
    if draw(pictures, titles, output):
        console.print(f"The same as a picture: {output}\n", markup=False, soft_wrap=True)
    else:
        console.print("With matplotlib installed, gapmf\\[plot], they are drawn to a .png too.\n")


def _say_ranks(console: Console, report: RankReport, order: NDArray[np.intp], size: Size) -> None:
    console.print(
        f"[bold]Are all {size.K} needed?[/] est.rank_report(X), here for {size.n_report} pictures "
        "only, to be quick: each part by itself is removed, and the others are fitted again. What "
        "that costs is the log-likelihood that these pictures lose, in nats (natural logarithms), "
        "with its error."
    )
    table = Table(box=SIMPLE_HEAD)
    for name in ("part", "share", "cost", "kept"):
        table.add_column(name, justify="right")
    for place, k in enumerate(order, 1):
        cost = f"{report.cost[k]:.0f} ± {report.cost_error[k]:.1f}"
        kept = "yes" if report.keep[k] else "[yellow]no[/]"
        table.add_row(str(place), f"{report.share[k]:.1%}", cost, kept)
    console.print(table)
    console.print(
        "Then the cheapest are removed one after another, as long as one costs less than the "
        f"price that BIC puts on its parameters, {report.price:.0f} nats. Without one, the others "
        f"have more to do, and may be too dear to remove: [bold]{report.rank} of {size.K} stay[/]. "
        "More pictures can tell more parts apart.\n"
    )


def _compared(one: Any, est: Any, train: sp.csr_array, test: sp.csr_array, seed: int) -> Table:
    """Held-out pictures: the likelihood of whole ones, and of a half given the other."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("model")
    for name in ("log p, nats", "a count", "perplexity"):
        table.add_column(name, justify="right")
    for name, fitted in (("gapmf, 1 part", one), (f"gapmf, {_parts(est)}", est)):
        found = fitted.log_likelihood(test)
        model = fitted._check_samples(test)[1]
        completed = document_completion(test, model, random_state=seed, n_jobs=est.n_jobs)
        error = f"± {found.std_error:.1f}" if found.std_error else "(exact)"
        table.add_row(
            name,
            f"{found.total:,.1f} {error}",
            f"{found.total / test.sum():.4f}",
            f"{completed.perplexity:.2f}",
        )
    nmf = _perplexity_of_nmf(est.model_.n_components, train, test, seed)
    table.add_row(f"scikit-learn's NMF, {_parts(est)}", "none", "none", f"{nmf:.2f}")
    return table


def _say_predictions(console: Console, table: Table, test: sp.csr_array) -> None:
    console.print(f"[bold]Do they predict?[/] {test.shape[0]} pictures that no fit has seen:")
    console.print(table)
    console.print(
        "[bold]log p[/]: the marginal log-likelihood of the whole pictures, est.log_likelihood(X), "
        "± the error of its estimate, and for each of their "
        f"{int(test.sum()):,} counts; nearer to 0 is better. NMF has none: its amounts follow no "
        "law.\n"
        "[bold]perplexity[/]: of every picture half of the counts are shown, at random, and the "
        "model says where the others are. That is as hard as a guess among so many pixels; "
        f"{SIDE * SIDE} would be a blind guess, and less is better. NMF (Kullback-Leibler) takes "
        "the amounts that fit the shown half best, gapmf the mean of all that are plausible. Both "
        f"mix in {_FLOOR:.1%} of the average picture, so that no count is impossible.\n"
    )


def _parts(est: Any) -> str:
    return f"{est.model_.n_components} parts"


def _perplexity_of_nmf(K: int, train: sp.csr_array, test: sp.csr_array, seed: int) -> float:
    """The same task for scikit-learn's NMF with the Kullback-Leibler divergence."""
    nmf = NMF(
        K, solver="mu", beta_loss="kullback-leibler", init="nndsvda", max_iter=500,
        random_state=seed, tol=1e-4,
    )  # fmt: skip
    with echo_warnings():
        nmf.fit(train.astype(float))
        # The halves of `document_completion`, from the same seed.
        shown, rest = split_tokens(test, 0.5, np.random.default_rng(seed))
        rates = nmf.transform(shown.astype(float)) @ nmf.components_
    seen = np.asarray(train.sum(axis=0)).ravel() + 1.0
    p = rates / np.maximum(rates.sum(axis=1, keepdims=True), 1e-300)
    p = (1.0 - _FLOOR) * p + _FLOOR * seen / seen.sum()
    entries = rest.tocoo()
    log_p = np.log(p[entries.coords]) @ entries.data
    return float(np.exp(-log_p / rest.sum()))


def _say_what_next(console: Console) -> None:
    command = Path(sys.argv[0]).absolute()
    if shutil.which(command.name) is None:  # `make demo` in a shell that does not know .venv
        activate = os.path.relpath(command.with_name("activate"))
        console.print(f"[dim]The command is in {os.path.relpath(command.parent)}; "
                      f". {activate} makes it known.[/]")  # fmt: skip
    console.print(
        "[bold]With your own counts[/], a row a sample, a column a feature:\n"
        "  [green]gapmf fit DATA -k 20 --learn-alpha -o my.gapmf[/]  .csv, .mtx, .h5ad, text …\n"
        "  [green]gapmf topics my.gapmf[/]                           what the components are\n"
        "  [green]gapmf score my.gapmf NEW_DATA[/]                   how well they predict\n"
        "  [green]gapmf transform my.gapmf DATA -o H.csv[/]          the amounts in each sample\n"
        "or in Python, with an estimator that behaves as those of scikit-learn do:\n"
        "  [green]from gapmf import GammaPoissonMF[/]\n"
        "  [green]est = GammaPoissonMF(20, learn_alpha=True).fit(X)[/]\n"
        "  [green]print(est.rank_report(X))[/]",
        soft_wrap=True,
    )
