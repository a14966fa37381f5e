"""`gapmf fit`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

import gapmf.storage as storage
from gapmf.cli.files import column_exposure, echo_warnings, read_data, take_exposure
from gapmf.cli.inspect import topics_table
from gapmf.cli.options import echo
from gapmf.counts import warn_of_duplicates
from gapmf.em.settings import MONTE_CARLO, check_settings
from gapmf.errors import InvalidInputError, StorageError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import read
from gapmf.storage import check_parent_folder


def run(
    data: Path,
    options: dict[str, Any],
    parameters: dict[str, Any],
    output: Path,
    checkpoint: Path | None,
    *,
    resume: bool,
    n_top: int,
    exposure: str | None = None,
) -> None:
    """Read, fit, save, show."""
    if resume and checkpoint is None:
        raise InvalidInputError("--resume needs --checkpoint FILE")
    check_model_output(output, data)
    if checkpoint is not None:
        check_parent_folder(checkpoint)
    quiet = not parameters["verbose"]
    start = time.perf_counter()
    with echo_warnings(quiet=quiet):
        s, options = column_exposure(exposure, data, options)
        in_memory = parameters["algorithm"] not in MONTE_CARLO or exposure is not None
        in_memory |= parameters.get("schedule") == "online"
        table = read(data, **options) if in_memory else read_data(data, options)
    if s is None:
        s, table = take_exposure(exposure, data, table)
    check_settings(GammaPoissonMF(**parameters).get_params(), table.counts)
    if table.feature_names is not None and not quiet:
        with echo_warnings():
            warn_of_duplicates(
                table.feature_names,
                "Results will not tell these features apart, and other data cannot be matched to "
                "them by name: make the names unique",
            )
    if not quiet:
        N, F = table.counts.shape
        echo(
            f"{data}: {N:,} samples × {F:,} features, {table.counts.nnz:,} entries above 0, "
            f"{int(table.counts.sum()):,} counts, read in {time.perf_counter() - start:.1f} s"
        )
    with echo_warnings(quiet=quiet):
        if resume and checkpoint is not None and checkpoint.exists():
            changes = {name: parameters[name] for name in ("n_jobs", "verbose")}
            est = GammaPoissonMF.resume(checkpoint, table.counts, exposure=s, **changes)
            _note_parameters(est, parameters, checkpoint)
        else:
            est = GammaPoissonMF(**parameters, checkpoint=checkpoint)
            est.fit(table.counts, exposure=s)
    if table.feature_names is not None:
        est.feature_names_in_ = table.feature_names
    est.save(output)
    if est.interrupted_:
        echo(f"stopped: the model so far, after {est.n_iter_} iterations, is in {output}")
    elif not quiet:
        seconds = time.perf_counter() - start
        ended = "converged" if est.converged_ else "not converged"
        if hasattr(est, "last_gain_"):
            ended += f" (the last window gained at most {est.last_gain_:.1g} nats per token)"
        echo(f"{est.n_iter_} iterations, {ended}, {seconds:.1f} s in all; the model is in {output}")
        if est.pseudo_count_:
            chosen = " (chosen)" if est.pseudo_count == "auto" else ""
            what = (
                "the components are posterior means"
                if est.schedule == "posterior" and est.algorithm == "mcem-c"
                else "the fit maximises the log-likelihood and the log-prior, which is "
                f"{est.log_prior_:,.0f} nats"
            )
            echo(f"pseudo-count {est.pseudo_count_:.3g}{chosen}; {what}")
    if n_top and not quiet:
        Console(highlight=False).print(topics_table(est, n_top, est.prune_tol))
    if est.interrupted_:
        sys.exit(130)  # after Ctrl-C, of which a sentence has been said


def check_model_output(output: Path, data: Path) -> None:
    """Refuse to overwrite a file that is not a model."""
    check_parent_folder(output)
    if not output.exists():
        return
    if data.exists() and output.samefile(data):
        raise InvalidInputError(f"{output} is the data: name another file for the model")
    try:
        storage.read(output, "model")
    except StorageError as error:
        raise InvalidInputError(
            f"{output} exists and is not a model, so it is not replaced: remove it, or name "
            "another file"
        ) from error


def _note_parameters(est: Any, parameters: dict[str, Any], checkpoint: Path) -> None:
    """Say which parameters of the command line a resumed fit did not use."""
    used = est.get_params()
    asked = {k: v for k, v in parameters.items() if k not in ("n_jobs", "verbose")}
    different = [f"{name} = {used[name]}" for name, v in asked.items() if used[name] != v]
    if different:
        echo(f"note: a resumed fit keeps its parameters, here {', '.join(different)}")
