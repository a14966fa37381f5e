"""`gapmf score`, `gapmf transform` and `gapmf recommend`: apply a model to data."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import typer

from gapmf.cli.files import echo_warnings, exposure_for, load, name_samples
from gapmf.cli.options import RecommendRequest, ScoreRequest, TransformRequest
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table
from gapmf.storage.output import to_csv, to_json, to_records, write_table


def score(request: ScoreRequest) -> None:
    """Print the log-likelihood of the data; write that of every sample."""
    est, table = _load(request)
    exposure = exposure_for(request.exposure, request.data, table, request.reading)
    with echo_warnings():
        found = est.log_likelihood(
            table.counts,
            precision=request.precision,
            total_only=request.output is None,
            exposure=exposure,
        )
    n_tokens = int(table.counts.sum())
    summary = {
        "samples": table.counts.shape[0],
        "counts": n_tokens,
        "log_likelihood": found.total,
        "std_error": found.std_error,
        "per_count": found.total / n_tokens if n_tokens else None,
        "computed": int((~np.isnan(found.per_sample)).sum()),
        "impossible": int(np.isneginf(found.per_sample).sum()),
        "unreliable": int((~found.reliable[~np.isnan(found.per_sample)]).sum()),
        "method": found.method,
    }
    if request.output is not None:
        columns = {
            "sample": name_samples(table),
            "log_likelihood": found.per_sample,
            "std_error": found.std_errors,
            "reliable": found.reliable,
            "method": [str(method) for method in found.methods],
        }
        write_table(columns, request.output)
    if request.json:
        sys.stdout.write(to_json(summary))
    else:
        typer.echo(_format_summary(summary))


def _format_summary(summary: dict[str, Any]) -> str:
    lines = [
        f"log p({summary['samples']:,} samples) = {summary['log_likelihood']:,.3f}"
        + (f" ± {summary['std_error']:.3g}" if summary["std_error"] else " (exact)"),
        "the data have no counts, so there is no value per count"
        if summary["per_count"] is None
        else f"per count: {summary['per_count']:.5f} nats, over {summary['counts']:,} counts",
    ]
    if summary["impossible"]:
        lines.append(
            f"{summary['impossible']:,} samples have probability 0, because they have features "
            "that no component has: use --smoothing, for example --smoothing 0.001"
        )
    if summary["computed"] < summary["samples"]:
        lines.append(
            f"computed for {summary['computed']:,} samples, chosen at random, and predicted for "
            "the others; -o FILE computes all of them"
        )
    elif summary["unreliable"]:
        lines.append(
            f"{summary['unreliable']:,} samples have values of their own that are uncertain by "
            "more than half a nat: a smaller --precision makes them better"
        )
    return "\n".join(lines)


def transform(request: TransformRequest) -> None:
    """Print or write the share of each component in each sample, or the activations."""
    est, table = _load(request)
    est.set_params(precision=request.precision)
    exposure = exposure_for(request.exposure, request.data, table, request.reading)
    with echo_warnings():
        H = (est.transform if request.activations else est.proportions)(table.counts, exposure)
    columns: dict[str, Any] = {"sample": name_samples(table)}
    columns |= {f"component{k}": H[:, k] for k in range(H.shape[1])}
    if request.output is not None:
        write_table(columns, request.output)
    if request.json:
        sys.stdout.write(to_json(to_records(columns)))
    elif request.output is None:
        sys.stdout.write(to_csv(columns))


def recommend(request: RecommendRequest) -> None:
    """Print or write the features with the highest expected counts of each sample."""
    est, table = load(request)
    est.set_params(precision=request.precision)
    exposure = exposure_for(request.exposure, request.data, table, request.reading)
    with echo_warnings():
        found = est.recommend(
            table.counts, request.n, exclude_seen=not request.include_seen, exposure=exposure
        )
    samples, names = name_samples(table), found.feature_names
    if request.json:
        content = [
            {
                "sample": sample,
                "items": [{"feature": name, "expected_count": value} for name, value in row],
            }
            for sample, row in zip(samples, found.to_lists(), strict=True)
        ]
        sys.stdout.write(to_json(content))
    row, place = np.nonzero(found.items >= 0)
    items = found.items[row, place]
    columns = {
        "sample": [samples[n] for n in row],
        "place": place + 1,
        "feature": items if names is None else [str(names[f]) for f in items],
        "expected_count": found.expected[row, place],
    }
    if request.output is not None:
        write_table(columns, request.output)
    elif not request.json:
        sys.stdout.write(to_csv(columns))


def _load(request: ScoreRequest | TransformRequest) -> tuple[GammaPoissonMF, Table]:
    est, table = load(request, streamed=True)
    if request.smoothing is not None:
        est.set_params(smoothing=request.smoothing)
    return est, table
