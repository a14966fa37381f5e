"""`gapmf score` and `gapmf transform`: what a model says about data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from gapmf.cli.files import (
    check_output,
    echo_warnings,
    name_samples,
    print_json,
    read_for,
    write_table,
)
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table


class Request(NamedTuple):
    """What both commands are asked about, and where the answer goes."""

    model: Path
    data: Path
    reading: dict[str, Any]
    output: Path | None
    jobs: int
    smoothing: float | None


def score(asked: Request, *, json: bool) -> None:
    """The likelihood of data."""
    est, table = _model_and_data(asked)
    with echo_warnings():
        found = est.log_likelihood(table.counts)
    n_tokens = int(table.counts.sum())
    summary = {
        "samples": table.counts.shape[0],
        "counts": n_tokens,
        "log_likelihood": found.total,
        "std_error": found.std_error,
        "per_count": found.total / max(n_tokens, 1),
        "impossible": int(np.isneginf(found.per_sample).sum()),
        "unreliable": int((~found.reliable).sum()),
        "method": found.method,
    }
    if asked.output is not None:
        columns: dict[str, Any] = {
            "sample": name_samples(table),
            "log_likelihood": found.per_sample,
            "std_error": found.std_errors,
            "reliable": found.reliable,
            "method": [str(method) for method in found.methods],
        }
        write_table(columns, asked.output)
    if json:
        print_json(summary)
    else:
        typer.echo(_said(summary))


def _model_and_data(asked: Request) -> tuple[GammaPoissonMF, Table]:
    output = asked.output
    check_output(output)
    for name, path in (("data", asked.data), ("model", asked.model)):
        if output and output.exists() and path.exists() and output.samefile(path):
            raise InvalidInputError(f"{output} is the {name}: name another file for the output")
    est = GammaPoissonMF.load(asked.model).set_params(n_jobs=asked.jobs)
    if asked.smoothing is not None:
        est.set_params(smoothing=asked.smoothing)
    return est, read_for(est, asked.data, asked.reading)


def _said(summary: dict[str, Any]) -> str:
    lines = [
        f"log p({summary['samples']:,} samples) = {summary['log_likelihood']:,.3f}"
        + (f" ± {summary['std_error']:.3g}" if summary["std_error"] else ", exactly"),
        f"per count: {summary['per_count']:.5f} nats, over {summary['counts']:,} counts",
    ]
    if summary["impossible"]:
        lines.append(
            f"{summary['impossible']:,} samples are impossible: they have features that the "
            "model has never seen; ask with --smoothing 0.05"
        )
    if summary["unreliable"]:
        lines.append(f"{summary['unreliable']:,} samples have an error bar not to be trusted")
    return "\n".join(lines)


def transform(asked: Request, *, json: bool) -> None:
    """The activations of samples."""
    est, table = _model_and_data(asked)
    with echo_warnings():
        H = est.transform(table.counts)
    columns: dict[str, Any] = {"sample": name_samples(table)}
    columns |= {f"component{k}": H[:, k] for k in range(H.shape[1])}
    if asked.output is not None:
        write_table(columns, asked.output)
    if asked.output is None or json:
        write_table(columns, None, as_json=json)
