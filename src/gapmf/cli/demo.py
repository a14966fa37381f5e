"""`gapmf demo`: components of handwritten digits, what each is worth, and how well they predict."""

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

from gapmf.analysis.pictures import new_figure
from gapmf.cli.files import echo_warnings
from gapmf.counts import check_counts
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.posterior import posterior_activations
from gapmf.likelihood.predictive import split_tokens
from gapmf.model import GaP
from gapmf.plot import components
from gapmf.ranks.report import RankReport
from gapmf.report import write_report
from gapmf.storage import write_atomically
from gapmf.storage.output import check_output
from gapmf.types import Array

SHADES = " ░▒▓█"
_GAP = 3


def blocks(images: Array, titles: Sequence[str], width: int) -> str:
    """Return images (M, height, width) as text, side by side: two characters per pixel."""
    across = 2 * images.shape[2]
    per_row = max((width + _GAP) // (across + _GAP), 1)
    lines = []
    for first in range(0, len(images), per_row):
        some = range(first, min(first + per_row, len(images)))
        gap = " " * _GAP
        lines.append(gap.join(titles[m].center(across)[:across] for m in some).rstrip())
        rows = [_shaded(images[m]) for m in some]
        lines += [gap.join(row).rstrip() for row in zip(*rows, strict=True)]
        lines.append("")
    return "\n".join(lines)


def _shaded(image: Array) -> list[str]:
    level = (image / (image.max() or 1.0) * len(SHADES)).astype(int)
    return ["".join(SHADES[min(x, len(SHADES) - 1)] * 2 for x in row) for row in level]


def draw(est: GammaPoissonMF, path: Path) -> bool:
    """Draw the components to a file. Return False if matplotlib is not installed."""
    per_row = min(6, est.n_components)
    n_rows = -(-est.n_components // per_row)
    try:
        figure = new_figure(1.25 * per_row, 1.5 * n_rows)
    except ImportError:
        return False
    axes = figure.subplots(n_rows, per_row, squeeze=False)
    components(est, image=(SIDE, SIDE), axes=axes)
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return True


SIDE = 8
_FLOOR = 1e-3  # weight of the mean image in each prediction: no count is impossible


@dataclass(frozen=True)
class Size:
    """The size of the demo."""

    K: int
    n_train: int
    n_test: int
    n_report: int
    tol: float


FULL = Size(K=12, n_train=1717, n_test=80, n_report=80, tol=1e-4)
QUICK = Size(K=5, n_train=120, n_test=20, n_report=25, tol=1e-3)


def run(seed: int, output: Path, jobs: int, *, quick: bool) -> None:
    """Run the demo."""
    check_output(output, (".png", ".pdf", ".svg"))
    console = Console(highlight=False)
    size = QUICK if quick else FULL
    start = time.perf_counter()
    train, test = load_data(seed, size)
    console.print(
        f"[bold]gapmf[/] on scikit-learn's handwritten digits: {size.n_train} images of 8 × 8 "
        f"pixels, each pixel a count from 0 to 16; {size.n_test} more images are held out. The "
        f"model: an image is a sum of {size.K} components with random activations, and its counts "
        "are Poisson. The fit maximises the likelihood of the images, with the activations "
        "integrated out:\n"
        f'  [green]est = GammaPoissonMF({size.K}, learn_alpha="shared").fit(X)[/]\n'
        "[dim](The first run also compiles the kernels, for half a minute.)[/]\n"
    )
    est = fit_digits(size.K, train, size, seed, jobs, verbose=1)
    console.print(
        f"\n{est.n_iter_} iterations, {est.history_['seconds'][-1]:.1f} s. The fit has learned "
        f"α = {est.alpha_[0]:.2f}, the shape of the Gamma prior of activations: the smaller it "
        "is, the fewer components make up most of an image.\n"
    )
    order = np.argsort(-est.model_.shares, kind="stable")
    _show_components(console, est, order, output)
    report = est.rank_report(train[: size.n_report])
    _show_ranks(console, report, order, size)
    with console.status("predicting held-out images"):
        one = fit_digits(1, train, size, seed, jobs)
        rows = _compare(one, est, train, test, seed)
    _show_predictions(console, rows, test)
    page = output.with_suffix(".html")
    with console.status("writing the report"), echo_warnings():
        labels = [f"digit {label}" for label in load_labels(seed, size)]
        title = f"{size.K} components of handwritten digits"
        options: dict[str, Any] = {"groups": labels, "rank_report": report, "title": title}
        write_report(page, est.set_params(verbose=0), test, image=(SIDE, SIDE), **options)
    console.print(
        "[bold]All of this as a page[/] for your browser, with the components of each held-out "
        "image:"
    )
    console.print(f"  {page.absolute()}\n", markup=False, soft_wrap=True)
    console.print(f"[dim]{time.perf_counter() - start:.0f} seconds in all.[/]\n")
    _show_next_steps(console)


def load_data(seed: int, size: Size) -> tuple[sp.csr_array, sp.csr_array]:
    """Return training and test images."""
    X = check_counts(load_digits().data)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    test, train = np.split(order[: size.n_test + size.n_train], [size.n_test])
    return X[train], X[test]


def load_labels(seed: int, size: Size) -> NDArray[np.int64]:
    """Return the digits that the test images show."""
    labels = np.asarray(load_digits().target)
    return labels[np.random.default_rng(seed).permutation(labels.size)[: size.n_test]]


def fit_digits(
    K: int, train: sp.csr_array, size: Size, seed: int, jobs: int, *, verbose: int = 0
) -> GammaPoissonMF:
    """Fit the images with K components."""
    given: dict[str, Any] = {
        "tol": size.tol,
        "random_state": seed,
        "n_jobs": jobs,
        "verbose": verbose,
    }
    with echo_warnings():
        return GammaPoissonMF(K, learn_alpha="shared", smoothing=_FLOOR, **given).fit(train)


def _show_components(console: Console, est: Any, order: NDArray[np.intp], output: Path) -> None:
    console.print(
        "[bold]The components[/], est.components_, and their share of all counts. Fuller blocks "
        "are larger weights; each component has its own scale:\n"
    )
    shares = est.model_.shares[order]
    titles = [f"{k}: {share:.1%}" for k, share in zip(order, shares, strict=True)]
    images = est.components_[order].reshape(-1, SIDE, SIDE)
    console.print(blocks(images, titles, console.width), markup=False, soft_wrap=True)
    if draw(est, output):
        console.print(f"The same as a picture: {output}\n", markup=False, soft_wrap=True)
    else:
        console.print("Install matplotlib, gapmf\\[plot], to draw them to a .png as well.\n")


def _show_ranks(console: Console, report: RankReport, order: NDArray[np.intp], size: Size) -> None:
    console.print(
        f"[bold]Are all {size.K} needed?[/] est.rank_report(X), here for only {size.n_report} "
        "images, to be quick. A random fifth of their counts is held out, to be predicted from the "
        "others. Each component alone is removed, and the others are refitted. The cost is the "
        "log-likelihood that the held-out counts lose, in nats (natural logarithms), with its "
        "standard error."
    )
    rows = []
    for k in order:
        sign = "< " if report.bound[k] else ""
        cost = f"{sign}{report.cost[k]:.0f} ± {report.cost_error[k]:.1f}"
        kept = "yes" if report.keep[k] else "[yellow]no[/]"
        rows.append((str(k), f"{report.share[k]:.1%}", cost, kept))
    _print_table(console, ("component", "share", "cost", "kept"), rows)
    console.print(
        "Components are then removed one at a time, the cheapest first, while the loss is within "
        "two standard errors. The others take over the counts of a removed component, so that "
        f"they become more expensive to remove: [bold]{report.rank} of {size.K} stay[/]. With "
        "more images, more components are needed to predict them.\n"
    )


def _print_table(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=SIMPLE_HEAD)
    for name in names:
        table.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _compare(
    one: Any, est: Any, train: sp.csr_array, test: sp.csr_array, seed: int
) -> list[tuple[str, ...]]:
    """Compare models on held-out images: whole ones, and one half given the other."""
    K = est.model_.n_components
    shown, rest = split_tokens(test, 0.5, np.random.default_rng(seed))
    background = np.asarray(train.sum(axis=0)).ravel() + 1.0

    def perplexity(rates: Array) -> str:
        p = (1.0 - _FLOOR) * rates / rates.sum(axis=1, keepdims=True)
        p = np.broadcast_to(p + _FLOOR * background / background.sum(), rest.shape)
        entries = rest.tocoo()
        return f"{np.exp(-np.log(p[entries.row, entries.col]) @ entries.data / rest.sum()):.2f}"

    rows: list[tuple[str, ...]] = []
    # With one component the prediction is the same whatever is shown.
    for name, fitted, H in (
        ("gapmf, 1 component", one, np.ones((1, 1))),
        (f"gapmf, {K} components", est, _activations_of_half(est, shown, seed)),
    ):
        found = fitted.log_likelihood(test)
        error = f"± {found.std_error:.1f}" if found.std_error else "(exact)"
        log_p, per_count = f"{found.total:,.1f} {error}", f"{found.total / test.sum():.4f}"
        rows.append((name, log_p, per_count, perplexity(H @ fitted.components_)))
    nmf = perplexity(_rates_of_nmf(K, train, shown, seed))
    return [*rows, (f"scikit-learn's NMF, {K} components", "none", "none", nmf)]


def _activations_of_half(est: Any, shown: sp.csr_array, seed: int) -> Array:
    """Return the posterior mean of the activations, given images with half of their counts."""
    model = est.model_.smoothed(est.feature_counts_, _FLOOR)
    half = GaP(model.W * 0.5, model.alpha, model.beta)
    return posterior_activations(
        shown, half, quantiles=(), random_state=seed, n_jobs=est.n_jobs
    ).mean


def _rates_of_nmf(K: int, train: sp.csr_array, shown: sp.csr_array, seed: int) -> Array:
    """Return the rates of scikit-learn's NMF with the Kullback-Leibler divergence."""
    nmf = NMF(
        K, solver="mu", beta_loss="kullback-leibler", init="nndsvda", max_iter=500,
        random_state=seed, tol=1e-4,
    )  # fmt: skip
    with echo_warnings():
        nmf.fit(train.toarray().astype(float))  # sparse, it takes five times as long
        rates = nmf.transform(shown.toarray().astype(float)) @ nmf.components_
    return np.asarray(np.maximum(rates, np.finfo(float).tiny))


def _show_predictions(console: Console, rows: list[tuple[str, ...]], test: sp.csr_array) -> None:
    console.print(f"[bold]Do they predict?[/] {test.shape[0]} images that no fit has seen:")
    _print_table(console, ("model", "log p, nats", "per count", "perplexity"), rows)
    console.print(
        "[bold]log p[/]: the marginal log-likelihood of the whole images, est.log_likelihood(X), "
        f"± its standard error, and the same per count ({int(test.sum()):,} counts); closer to 0 "
        "is better. NMF has none: its activations have no distribution.\n"
        "[bold]perplexity[/]: half of the counts of every image, chosen at random, are shown; the "
        "model predicts the others. A perplexity of p is as hard as a guess among p equally "
        f"likely pixels; {SIDE * SIDE} is a blind guess, and less is better. NMF "
        "(Kullback-Leibler) uses the activations that fit the shown half best; gapmf averages "
        f"over the posterior. Both mix in {_FLOOR:.1%} of the mean image, so that no count is "
        "impossible.\n"
    )


def _show_next_steps(console: Console) -> None:
    command = Path(sys.argv[0]).absolute()
    if shutil.which(command.name) is None:  # `make demo`, and .venv is not activated
        activate = os.path.relpath(command.with_name("activate"))
        console.print(f"[dim]Run source {activate} to put gapmf on your PATH.[/]")
    console.print(
        "[bold]With your own counts[/], one row per sample and one column per feature:\n"
        "  [green]gapmf fit DATA -k 20 -o my.gapmf[/]                .csv, .mtx, .h5ad, text …\n"
        "  [green]gapmf topics my.gapmf[/]                           show the components\n"
        "  [green]gapmf report my.gapmf --data DATA -o my.html[/]    a page like the one above\n"
        "  [green]gapmf score my.gapmf NEW_DATA[/]                   log-likelihood of new data\n"
        "  [green]gapmf transform my.gapmf DATA -o shares.csv[/]     components of each sample\n"
        "or in Python, with a scikit-learn estimator:\n"
        "  [green]from gapmf import GammaPoissonMF[/]\n"
        "  [green]est = GammaPoissonMF(20).fit(X)[/]\n"
        "  [green]print(est.rank_report(X))[/]",
        soft_wrap=True,
    )
