"""Run a fit by on-line EM: several starts, the best of them, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

from gapmf.em.fit_state import FinishedStart, FitState, OnlineFitState, interrupted_start
from gapmf.em.history import Callback, History
from gapmf.em.online_run import Batches, final_model, model_so_far, run, start
from gapmf.em.settings import Settings
from gapmf.model import GaP
from gapmf.parallel import is_interruption
from gapmf.storage.checkpoint import Checkpoint


def fit_online(
    counts: sp.csr_array,
    settings: Settings,
    rng: np.random.Generator,
    n_jobs: int | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    resumed: OnlineFitState | None,
    score: Callable[[GaP], float],
) -> tuple[FinishedStart, bool]:
    """Run all starts; return the best, or after Ctrl-C the model so far, and whether that was so.

    An iteration is a pass over the present part of the samples.
    """
    best = None if resumed is None else resumed.best
    K, interrupted = settings.alpha.size, False
    history = History()
    try:
        for i in range(0 if resumed is None else resumed.start, settings.n_init):
            history = History(callbacks, score, settings.score_every)
            if resumed is None:
                seed = int(rng.integers(2**63))
                batches = Batches(counts, seed, n_jobs)
                progress = start(batches, settings, rng)
            else:
                seed, progress = resumed.seed, resumed.run
                batches = Batches(counts, seed, n_jobs)
                batches.chains = resumed.chains
                history.restore(resumed.history)
                history.model = model_so_far(progress)
            resumed = None
            for progress in run(batches, settings, rng, progress):  # noqa: B020
                if progress.n_iter > len(history) and history.add(
                    model_so_far(progress),
                    n_sweeps=progress.n_swept // batches.n_samples,
                    gain=progress.gain,
                ):
                    break
                if checkpoint is not None and checkpoint.is_due():
                    chains, so_far = batches.chains, history.arrays(K)
                    kept = OnlineFitState(i, best, seed, chains, so_far, progress)
                    checkpoint.write_progress(FitState(rng, online=kept))
            stopped = history.stopped
            model = model_so_far(progress) if stopped else final_model(settings, progress)
            del batches  # before the next start makes its own
            finished = FinishedStart(
                value=score(model) if settings.n_init > 1 else 0.0,
                model=model,
                converged=progress.converged,
                alike=progress.alike,
                stopped=stopped,
                history=history.arrays(K),
                last_gain=progress.last_gain,
            )
            if best is None or finished.value > best.value:
                best = finished
            if stopped:
                break
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interruption(error) or (best is None and history.model is None):
            raise
        interrupted = True
        if best is None:
            best = interrupted_start(history)
    assert best is not None
    return best, interrupted
