"""The command line. Commands import what they need when they run: `--help` stays light."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gapmf.cli.options import (
    Data,
    Jobs,
    Json,
    Model,
    Output,
    Seed,
    Smoothing,
    in_cli_words,
    with_read_options,
)

app = typer.Typer(
    name="gapmf",
    help="Gamma-Poisson factorisation of count matrices, by its marginal likelihood.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

# A wrong command or option. Typer brings its own click, so the class is found by descent.
_WrongCall: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def run() -> None:
    """The `gapmf` command: an error is one line on standard error, and a non-zero exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters gets a "?"
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("stopped", 130)
    except _WrongCall as error:
        code = error.exit_code  # without a message the help has been shown
        if error.format_message():
            code = _complain(error.format_message(), error.exit_code)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        plain = error.filename is not None and error.strerror is not None
        code = _complain(f"{error.filename}: {error.strerror}" if plain else str(error), 1)
    except (ValueError, ImportError, MemoryError) as error:
        code = _complain(str(error) or type(error).__name__, 1)
    sys.exit(code)


def _complain(message: str, code: int) -> int:
    typer.echo(f"gapmf: {in_cli_words(' '.join(message.split()))}", err=True)
    return code


def _version(asked: bool) -> None:
    if asked:
        from gapmf import __version__

        typer.echo(f"gapmf {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Gamma-Poisson factorisation of count matrices, by its marginal likelihood."""


@app.command()
def demo(
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the picture goes.")] = Path(
        "gapmf-demo.png"
    ),
    jobs: Jobs = -1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer pictures and parts: a few seconds.")
    ] = False,
) -> None:
    """Handwritten digits: components, what they are worth, and how well they predict.

    Under a minute. Example: gapmf demo
    """
    from gapmf.cli.demo import run

    run(seed, output, jobs, quick=quick)


@app.command()
@with_read_options
def fit(
    data: Data,
    components: Annotated[int, typer.Option("--components", "-k", help="K.", min=1)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.")],
    algorithm: Annotated[
        str, typer.Option(help="mcem-c, mcem-h, mcem-ch; for few components em-c, em-ch, exact.")
    ] = "mcem-c",
    alpha: Annotated[float, typer.Option(help="The shape of the activations.")] = 1.0,
    beta: Annotated[float, typer.Option(help="Their rate.")] = 1.0,
    learn_alpha: Annotated[
        bool, typer.Option("--learn-alpha", help="Learn α, one for each component.")
    ] = False,
    max_iter: Annotated[int | None, typer.Option(help="Iterations, at most.", min=1)] = None,
    tol: Annotated[float, typer.Option(help="Stop below so many nats a token and sweep.")] = 1e-5,
    smoothing: Annotated[
        float, typer.Option(help="How much of the background is mixed in when new data come.")
    ] = 0.0,
    seed: Seed = 0,
    jobs: Jobs = -1,
    stop_words: Annotated[
        str | None, typer.Option(help='Of text: "english" leaves out the most frequent.')
    ] = None,
    min_df: Annotated[
        int | None, typer.Option(help="Of text: words in fewer documents are left out.", min=1)
    ] = None,
    topics: Annotated[
        int, typer.Option(help="How many features of each component to show at the end.", min=0)
    ] = 10,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file that survives if the fit is killed.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")
    ] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Fit a model to counts, write it to a file, and show its components.

    Ctrl-C ends the fit with the model so far, and writes it. Example:
    gapmf fit docword.nips.txt.gz -k 20 --learn-alpha -o nips.gapmf
    """
    from gapmf.cli.fit_command import run

    parameters = {
        "n_components": components,
        "algorithm": algorithm,
        "alpha": alpha,
        "beta": beta,
        "learn_alpha": learn_alpha,
        "max_iter": max_iter,
        "tol": tol,
        "smoothing": smoothing,
        "random_state": seed,
        "n_jobs": jobs,
        "verbose": int(not quiet),
    }
    options = {**reading, "stop_words": stop_words, "min_df": min_df}
    run(data, options, parameters, output, checkpoint, resume=resume, n_top=topics)


@app.command()
@with_read_options
def score(
    model: Model,
    data: Data,
    output: Output = None,
    jobs: Jobs = -1,
    smoothing: Smoothing = None,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The log-likelihood of data under a model, with its error; -o keeps that of each sample.

    Example: gapmf score nips.gapmf docword.other.txt.gz -o scores.csv
    """
    from gapmf.cli.predict import Request
    from gapmf.cli.predict import score as run

    run(Request(model, data, reading, output, jobs, smoothing), json=json)


@app.command()
@with_read_options
def transform(
    model: Model,
    data: Data,
    output: Output = None,
    jobs: Jobs = -1,
    smoothing: Smoothing = None,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The activations of samples, posterior means: a row each, as CSV on standard output.

    Example: gapmf transform nips.gapmf docword.nips.txt.gz -o activations.parquet
    """
    from gapmf.cli.predict import Request
    from gapmf.cli.predict import transform as run

    run(Request(model, data, reading, output, jobs, smoothing), json=json)


@app.command()
def topics(
    model: Model,
    n: Annotated[int, typer.Option("-n", help="Features of each component.", min=1)] = 10,
    output: Output = None,
    json: Json = False,
) -> None:
    """The largest features of each component, their weights, and its share of the counts.

    Example: gapmf topics nips.gapmf -n 15
    """
    from gapmf.cli.inspect import run_topics

    run_topics(model, n, output, json=json)


@app.command()
def info(model: Model, json: Json = False) -> None:
    """What a model file holds, or the checkpoint of a fit: sizes, settings, how it ended.

    Example: gapmf info nips.gapmf
    """
    from gapmf.cli.inspect import run_info

    run_info(model, json=json)


@app.command()
def simulate(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv, .mtx, .npz or docword.NAME.txt[.gz].")
    ],
    model: Annotated[
        Path | None, typer.Option(help="Draw from a fitted model instead of a random one.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", help="N.", min=1)] = 200,
    features: Annotated[int, typer.Option("--features", "-f", help="F.", min=1)] = 50,
    components: Annotated[int, typer.Option("--components", "-k", help="K.", min=1)] = 4,
    alpha: Annotated[float, typer.Option(help="The shape of the activations.")] = 0.3,
    counts: Annotated[float, typer.Option(help="The mean total of a sample.")] = 200.0,
    seed: Seed = 0,
    truth: Annotated[
        Path | None, typer.Option(help="An .npz for W, alpha and beta of the random model.")
    ] = None,
) -> None:
    """Draw counts from a random model, or from a fitted one.

    Example: gapmf simulate -o toy.csv -n 100 -k 3
    """
    from gapmf.cli.simulate import run

    of_random = ("features", "components", "alpha", "counts")
    sources = {name: context.get_parameter_source(name) for name in of_random}
    given = [name for name, source in sources.items() if source and source.name != "DEFAULT"]
    if model is not None and given:
        raise typer.BadParameter(f"--{given[0]} is for a random model: --model has its own")
    run(output, model, (samples, features, components), alpha, counts, seed, truth)


@app.command()
def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="fig1, fig2, fig3a, fig3b, fig4, rates, race, spare, or all of them.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="A folder for the figures.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="A short form, of some seconds, not the protocol.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The NIPS counts (UCI files), for fig4 and race."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(help="Of fig1 to fig4: at most so many; a later call goes on.", min=1),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
) -> None:
    """Make a figure of the paper, or one that it could not draw: PNG, SVG, CSV and JSON.

    A call that was stopped is gone on with by the same command. Example:
    gapmf reproduce fig3b -o figures
    """
    from gapmf.cli.reproduce import run
    from gapmf.reproduce import Options

    run(figure, output, Options(seed, data, iterations), jobs, quick=quick)
