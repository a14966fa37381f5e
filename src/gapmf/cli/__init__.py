"""The command line. Commands import what they need when they run: `--help` stays light."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="gapmf",
    help="Gamma-Poisson factorisation of count matrices, by its marginal likelihood.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    """Simulate the paper's two data sets and compute their exact likelihood."""
    from gapmf.cli.demo import run

    run(seed)
