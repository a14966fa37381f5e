"""The command line. Commands import what they need when they run: `--help` stays light."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="gapmf",
    help="Gamma-Poisson factorisation of count matrices, by its marginal likelihood.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
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
    except typer.Abort:
        code = _complain("stopped", 130)
    except _WrongCall as error:
        code = _complain(error.format_message(), error.exit_code)
    except (ValueError, OSError) as error:
        code = _complain(str(error), 1)
    sys.exit(code)


def _complain(message: str, code: int) -> int:
    typer.echo(f"gapmf: {' '.join(message.split())}", err=True)
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
    seed: Annotated[int, typer.Option(help="Seed of the simulated data.", min=0)] = 0,
) -> None:
    """Simulate the paper's two data sets, compute their exact likelihood, and fit one."""
    from gapmf.cli.demo import run

    run(seed)
