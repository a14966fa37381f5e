"""The command line. Commands import what they need when they run: `--help` stays light."""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from gapmf.cli.options import (
    EXPOSURE,
    SMOOTHING,
    Algorithm,
    Alpha,
    CheckRequest,
    CompareRequest,
    Components,
    Criterion,
    Data,
    Jobs,
    Json,
    LearnAlpha,
    MaxDf,
    MinDf,
    Model,
    Output,
    PictureOrTable,
    PseudoCount,
    Quick,
    RankRequest,
    RecommendRequest,
    ReportRequest,
    Schedule,
    ScoreRequest,
    Seed,
    StopWords,
    Test,
    Tol,
    TransformRequest,
    as_options,
    echo,
    parse_pseudo_count,
    with_read_options,
    with_request,
)

app = typer.Typer(
    name="gapmf",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

# A wrong command or option. Typer brings its own click, so the class is found by descent.
_UsageError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def run() -> None:
    """Run the `gapmf` command. An error is one line on standard error and a non-zero exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters gets a "?"
    code, message = 1, ""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # what newer versions of typer make of a KeyboardInterrupt
            message = "stopped"
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        code, message = 130, "stopped"
    except SystemError as error:  # a Ctrl-C while Numba looks for a kernel
        from gapmf.parallel import is_interruption

        if not is_interruption(error):
            raise
        code, message = 130, "stopped"
    except _UsageError as error:  # without a message the help has been shown
        code, message = error.exit_code, error.format_message()
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        plain = error.filename is not None and error.strerror is not None
        message = f"{error.filename}: {error.strerror}" if plain else str(error) or "OSError"
    except (ValueError, ImportError, MemoryError) as error:
        message = as_options(str(error)) or type(error).__name__
    if message:
        echo(message)
    sys.exit(code)


def _reflow(help_text: str) -> str:
    """Return the docstring of a command with one line per paragraph, and its example apart."""
    paragraphs = [" ".join(p.split()) for p in inspect.cleandoc(help_text).split("\n\n")]
    return re.sub(r"\s*Example: ", "\n\nExample: ", "\n\n".join(paragraphs))


def _version(asked: bool) -> None:
    if asked:
        from gapmf import __version__

        typer.echo(f"gapmf {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Gamma-Poisson factorisation of count matrices, fitted by its marginal likelihood."""


@app.command()
def demo(
    seed: Seed = 0,
    output: Annotated[
        Path, Option("--output", "-o", help="Draw the components to this .png, .pdf or .svg file.")
    ] = Path("gapmf-demo.png"),
    jobs: Jobs = -1,
    quick: Quick = False,
) -> None:
    """Fit small images of handwritten digits, and explain each result.

    Shows the components, how many of them are needed, and how well they predict new images. Also
    writes a report, gapmf-demo.html, beside the picture. Takes less than a minute.
    Example: gapmf demo
    """
    from gapmf.cli.demo import run

    run(seed, output, jobs, quick=quick)


@app.command()
@with_read_options
def fit(
    data: Data,
    components: Components,
    output: Annotated[Path, Option("--output", "-o", help="Write the model to this file.")],
    algorithm: Algorithm = "mcem-c",
    alpha: Alpha = 1.0,
    beta: Annotated[float, Option(help="Rate of the Gamma prior of activations.")] = 1.0,
    learn_alpha: LearnAlpha = False,
    pseudo_count: PseudoCount = "0",
    schedule: Schedule = "adaptive",
    max_iter: Annotated[
        int | None,
        Option(
            help="Maximum number of iterations. Default: 500 for --schedule paper, 2000 for the "
            "other schedules, 1000 for algorithms without Monte Carlo.",
            min=1,
            metavar="N",
        ),
    ] = None,
    tol: Tol = 1e-5,
    smoothing: Annotated[float, Option(help=SMOOTHING)] = 1e-3,
    exposure: Annotated[
        str | None, Option(metavar="EXPOSURE", help=f"{EXPOSURE} Default: 1.")
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    stop_words: StopWords = None,
    min_df: MinDf = None,
    max_df: MaxDf = None,
    topics: Annotated[
        int, Option(help="Number of features per component to show at the end.", min=0, metavar="N")
    ] = 10,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only errors.")] = False,
    checkpoint: Annotated[
        Path | None, Option(help="Save progress to this file, so that a killed fit can be resumed.")
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue from the checkpoint if it exists.")
    ] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Fit a model to counts, write it to a file, and show its components.

    Ctrl-C stops the fit and writes the model so far. Example:
    gapmf fit docword.nips.txt.gz -k 20 -o nips.gapmf
    """
    from gapmf.cli.fit_command import run

    parameters = {
        "n_components": components,
        "algorithm": algorithm,
        "alpha": alpha,
        "beta": beta,
        "learn_alpha": learn_alpha,
        "pseudo_count": parse_pseudo_count(pseudo_count),
        "schedule": schedule,
        "max_iter": max_iter,
        "tol": tol,
        "smoothing": smoothing,
        "random_state": seed,
        "n_jobs": jobs,
        "verbose": int(not quiet),
    }
    options = {**reading, "stop_words": stop_words, "min_df": min_df, "max_df": max_df}
    run(
        data,
        options,
        parameters,
        output,
        checkpoint,
        resume=resume,
        n_top=topics,
        exposure=exposure,
    )


@app.command()
@with_request
def score(request: ScoreRequest) -> None:
    """Compute the log-likelihood of data under a model, with its standard error.

    Without -o, the total may be estimated from a random part of the samples. With -o, compute all
    samples and write the log-likelihood of each. Example:
    gapmf score nips.gapmf docword.other.txt.gz -o scores.csv
    """
    from gapmf.cli import predict

    predict.score(request)


@app.command()
@with_request
def transform(request: TransformRequest) -> None:
    """Compute the proportions of the components in each sample: one row per sample.

    The proportions of a sample sum to 1. Use them to cluster, plot and compare samples. With
    --activations, compute the posterior means of the activations instead; those of different
    components have different scales. Without -o, print CSV. Example:
    gapmf transform nips.gapmf docword.nips.txt.gz -o proportions.parquet
    """
    from gapmf.cli import predict

    predict.transform(request)


@app.command()
@with_request
def recommend(request: RecommendRequest) -> None:
    """List the features with the highest expected counts in each sample, given its counts.

    If samples are users and features are items, these are recommendations. Features that have
    counts in the sample are left out, and so are those whose expected count is 0. A sample without
    counts gets the features with the highest expected counts overall. Without -o, print CSV, one
    row per recommendation. Example:
    gapmf recommend plays.gapmf plays.csv -n 5 -o recommendations.parquet
    """
    from gapmf.cli import predict

    predict.recommend(request)


@app.command()
def topics(
    model: Model,
    n: Annotated[
        int, Option("-n", help="Number of features per component.", min=1, metavar="N")
    ] = 10,
    by: Annotated[
        str,
        Option(
            help="Order of the features: distinctive (much more frequent than in the other "
            "components) or weight."
        ),
    ] = "distinctive",
    output: Output = None,
    json: Json = False,
) -> None:
    """Show what each component is about: its features with their weights, and its share.

    Example: gapmf topics nips.gapmf -n 15
    """
    from gapmf.cli.inspect import run_topics

    run_topics(model, n, by, output, json=json)


@app.command()
def info(
    model: Annotated[
        Path, Argument(metavar="MODEL", help="Model or checkpoint written by `gapmf fit`.")
    ],
    json: Json = False,
) -> None:
    """Describe a model or checkpoint that `gapmf fit` has written.

    Shows the numbers of components and features, the parameters of the fit, how many iterations
    it made, and whether it converged. Example: gapmf info nips.gapmf
    """
    from gapmf.cli.inspect import run_info

    run_info(model, json=json)


@app.command()
@with_request
def check(request: CheckRequest) -> None:
    """Check whether data look like draws from a model, and say what to change.

    Totals of samples, zeros, over-dispersion and the largest counts are compared with those of
    data drawn from the model, with p-values. DATA are the counts of the fit, or others. With -o,
    draw a picture or write a table. Example:
    gapmf check nips.gapmf docword.nips.txt.gz -o check.png
    """
    from gapmf.cli import check_commands

    check_commands.check(request)


@app.command()
@with_request
def compare(request: CompareRequest) -> None:
    """Compare the proportions of components between groups of samples, with intervals.

    The intervals are for the populations that the samples come from. With -o, draw a picture or
    write a table, one row per component and group. Example:
    gapmf compare cells.gapmf cells.h5ad --groups batch -o batches.png
    """
    from gapmf.cli import check_commands

    check_commands.compare(request)


@app.command()
@with_request
def rank(request: RankRequest) -> None:
    """Report what each component of a model is worth, and how many to keep.

    DATA are the counts that the model was fitted to. With -o, write a table with one row per
    component. Takes no exposures: a fit with exposures other than total is refused. Example:
    gapmf rank nips.gapmf docword.nips.txt.gz
    """
    from gapmf.cli import rank_commands

    rank_commands.rank(request)


@app.command()
@with_request
def report(request: ReportRequest) -> None:
    """Write a report of a model to one HTML file, which can be opened in any browser.

    Shows the fit, the components, and which of them are alike; with --data also how well the model
    fits, and the components of each sample. The file loads nothing from the network. Example:
    gapmf report nips.gapmf --data docword.nips.txt.gz -o nips.html
    """
    from gapmf.cli import check_commands

    check_commands.report(request)


@app.command()
@with_read_options
def select(
    data: Data,
    components: Annotated[
        str,
        Option(
            "--components",
            "-k",
            metavar="K,K,…",
            help="Numbers of components to compare, for example 5,10,20,40.",
        ),
    ],
    test: Test = None,
    criterion: Criterion = "prediction",
    output: PictureOrTable = None,
    model_out: Annotated[
        Path | None, Option(help="Write the model with the chosen number of components here.")
    ] = None,
    algorithm: Algorithm = "mcem-c",
    alpha: Alpha = 1.0,
    learn_alpha: LearnAlpha = False,
    pseudo_count: PseudoCount = "0",
    tol: Tol = 1e-5,
    seed: Seed = 0,
    jobs: Jobs = -1,
    stop_words: StopWords = None,
    min_df: MinDf = None,
    max_df: MaxDf = None,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Fit models with several numbers of components, compare them, and choose one.

    After Ctrl-C, the fits that are finished are compared. Example:
    gapmf select docword.nips.txt.gz -k 5,10,20,40 -o ranks.png
    """
    from gapmf.cli import rank_commands

    parameters = {
        "algorithm": algorithm,
        "alpha": alpha,
        "learn_alpha": learn_alpha,
        "pseudo_count": parse_pseudo_count(pseudo_count),
        "tol": tol,
        "random_state": seed,
        "n_jobs": jobs,
    }
    files = rank_commands.Files(data, test, output, model_out)
    filters = {"stop_words": stop_words, "min_df": min_df, "max_df": max_df}
    rank_commands.select(
        files, components, parameters, reading, filters, criterion=criterion, json=json
    )


@app.command()
@with_read_options
def shard(
    data: Data,
    output: Annotated[
        Path, Option("--output", "-o", metavar="DIR", help="Write the shards to this new folder.")
    ],
    shard_tokens: Annotated[
        int,
        Option(
            help="Sum of the counts of a shard. A fit holds one per thread.", min=1, metavar="N"
        ),
    ] = 2_000_000,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only errors.")] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Write counts as a folder of shards, for data that do not fit in memory.

    `gapmf fit` takes the folder as DATA and holds one shard per thread in memory. It loads all
    shards into memory with --exposure, --schedule online, --stop-words, --min-df, --max-df or
    --format, and with any algorithm other than mcem-c, mcem-h and mcem-ch. `gapmf score` and
    `gapmf transform` read one shard at a time. They load all shards into memory with --exposure or
    --format, after a fit with exposures, and if the names of the features are not those of the
    model in the same order. All other commands load all shards into memory.

    Shards are Parquet files with a manifest; they need the package pyarrow. UCI and .h5ad files,
    sorted .mtx files and dense tables are streamed. Other files are read as a whole, and a note
    says so. Example:
    gapmf shard docword.pubmed.txt.gz -o pubmed
    """
    from gapmf.cli import data_commands

    data_commands.shard(data, output, shard_tokens, reading, quiet=quiet)


@app.command()
def simulate(
    context: typer.Context,
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            help="Write the counts to this .csv, .mtx, .npz, .h5ad or docword.NAME.txt file.",
        ),
    ],
    model: Annotated[
        Path | None, Option(help="Draw from this model file instead of a random model.")
    ] = None,
    samples: Annotated[
        int, Option("--samples", "-n", help="Number of samples.", min=1, metavar="N")
    ] = 200,
    features: Annotated[
        int, Option("--features", "-f", help="Number of features.", min=1, metavar="N")
    ] = 50,
    components: Components = 4,
    alpha: Alpha = 0.3,
    counts: Annotated[float, Option(help="Expected number of tokens per sample.")] = 200.0,
    seed: Seed = 0,
    truth: Annotated[
        Path | None, Option(help="Write W, alpha and beta of the random model to this .npz.")
    ] = None,
) -> None:
    """Draw counts from a random model, or from a fitted one.

    The options -f, -k, --alpha, --counts and --truth are for a random model: leave them out with
    --model. Example:
    gapmf simulate -o toy.csv -n 100 -k 3
    """
    from gapmf.cli import data_commands

    of_random = ("features", "components", "alpha", "counts")
    sources = {name: context.get_parameter_source(name) for name in of_random}
    given = [name for name, source in sources.items() if source and source.name != "DEFAULT"]
    if model is not None and given:
        raise typer.BadParameter(f"--{given[0]} is for a random model: leave it out with --model")
    data_commands.simulate(
        output, model, (samples, features, components), alpha, counts, seed, truth
    )


@app.command()
def reproduce(
    figure: Annotated[
        str,
        Argument(
            metavar="FIGURE",
            help="fig1, fig2, fig3a, fig3b, fig4, rates, race, spare, overfit, or all (all of "
            "these).",
        ),
    ],
    output: Annotated[
        Path, Option("--output", "-o", metavar="DIR", help="Write the files to this folder.")
    ],
    quick: Quick = False,
    data: Annotated[
        Path | None,
        Option(metavar="DIR", help="Folder with the NIPS counts (UCI), for fig4, race, overfit."),
    ] = None,
    iterations: Annotated[
        int | None, Option(help="Maximum number of iterations of fig1 to fig4.", min=1, metavar="N")
    ] = None,
    finished_only: Annotated[
        bool,
        Option(
            "--finished-only",
            help="Compute nothing: make the figure from the results that are finished.",
        ),
    ] = False,
    seed: Seed = 0,
    jobs: Jobs = -1,
) -> None:
    """Make a figure of the paper (Filstroff et al., 2018), or one of ours: PNG, SVG, CSV and JSON.

    Run the same command again to continue after an interruption. Example:
    gapmf reproduce fig3b -o figures
    """
    from gapmf.cli.reproduce import run
    from gapmf.reproduce import Options

    run(figure, output, Options(seed, data, iterations, finished_only), jobs, quick=quick)


for _command in app.registered_commands:  # a terminal breaks lines by its own width
    _command.help = _reflow(str(_command.callback.__doc__))
