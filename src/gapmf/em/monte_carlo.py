"""Monte Carlo EM: MCEM-C, MCEM-H and MCEM-CH, on any engine."""

from __future__ import annotations

import dataclasses

import numpy as np

from gapmf.em import start
from gapmf.em.alpha import fit_alpha
from gapmf.em.history import History
from gapmf.em.m_steps import update_c, update_ch
from gapmf.em.schedules import Adaptive, MStep, Pace, Rule, Saem
from gapmf.em.settings import Settings
from gapmf.em.state import pack_model, unpack_model
from gapmf.em.walk import Keep, Outcome, Walk
from gapmf.engines.base import Engine, Statistics, Sweeps
from gapmf.model import GaP
from gapmf.types import Tree

# An estimate is uncertain by about half a nat a parameter: a tenth of that is little.
NATS_A_PARAMETER = 5e3  # times tol


def _step_c(s: Statistics, model: GaP) -> GaP:
    return GaP(update_c(s, model.alpha, model.beta), model.alpha, model.beta)


def _step_ch(s: Statistics, model: GaP) -> GaP:
    """A step of MCEM-CH; of MCEM-H too if s holds E[C | h]: w̃ Σ h v / [W̃h] = Σ c."""
    return GaP(update_ch(s), model.alpha, model.beta)


def m_step(settings: Settings) -> MStep:
    """From the statistics of an E-step to the next model."""
    if settings.algorithm != "mcem-c":
        return _step_ch
    if settings.learn_alpha is None:
        return _step_c
    shared = settings.learn_alpha == "shared"

    def learn(s: Statistics, model: GaP) -> GaP:
        assert s.sizes is not None
        alpha = fit_alpha(s.sizes, model.alpha, shared=shared)
        return GaP(update_c(s, alpha, model.beta), alpha, model.beta)

    return learn


def fit(
    engine: Engine,
    settings: Settings,
    rng: np.random.Generator,
    history: History,
    keep: Keep | None = None,
    begun: Tree | None = None,
) -> Outcome:
    """Fit by the schedule of the settings.

    `keep` is offered, after every iteration, what there is to go on from, but for the engine's
    state, the generator's and the history; these must be as they were when it is `begun`.
    """
    if settings.schedule == "paper":
        if begun is None:
            begun = {"model": pack_model(first_model(engine, settings, rng)), "n_sweeps": 0}
        return Outcome(_fit_paper(engine, begun, settings, history, keep), False, False)
    walk = _walk(engine, settings, rng, history, keep)
    return walk.resume(begun) if begun else walk(first_model(engine, settings, rng))


def refit(engine: Engine, settings: Settings, rng: np.random.Generator) -> GaP:
    """A short fit from a model that is given as `init`, by the adaptive schedule's steps."""
    adaptive = dataclasses.replace(settings, schedule="adaptive", max_iter=10**6)
    walk = _walk(engine, adaptive, rng, History())
    return walk.short(first_model(engine, settings, rng))


def _walk(
    engine: Engine,
    settings: Settings,
    rng: np.random.Generator,
    history: History,
    keep: Keep | None = None,
) -> Walk:
    n_parameters = settings.alpha.size * int((engine.totals > 0).sum())

    def restart() -> GaP:
        return _start("random", engine, settings, rng)

    return Walk(
        engine,
        _pace(engine, settings),
        Rule(
            a_sweep=settings.tol * float(engine.totals.sum()),
            in_all=settings.tol * NATS_A_PARAMETER * n_parameters,
        ),
        sizes=settings.learn_alpha is not None,
        restart=restart if isinstance(settings.init, str) and settings.init == "mean" else None,
        max_iter=settings.max_iter,
        history=history,
        keep=keep,
    )


def _pace(engine: Engine, settings: Settings) -> Pace:
    if settings.schedule == "saem":
        return Saem(m_step(settings))
    keeps_means = settings.algorithm == "mcem-c"
    mean_counts = engine.totals / engine.n_samples if keeps_means else None
    return Adaptive(m_step(settings), mean_counts, settings.alpha.size)


def first_model(engine: Engine, settings: Settings, rng: np.random.Generator) -> GaP:
    """Where the chains start: the paper's point as it is, since Monte Carlo noise leaves it."""
    if not isinstance(settings.init, str):
        return GaP(settings.init, settings.alpha, settings.beta)
    return _start(settings.init, engine, settings, rng)


def _start(kind: str, engine: Engine, settings: Settings, rng: np.random.Generator) -> GaP:
    mean_counts = engine.totals / engine.n_samples
    if kind == "mean":
        W = start.mean_start(mean_counts, settings.alpha, settings.beta)
    else:
        W = start.random_start(mean_counts, settings.alpha, settings.beta, rng)
    return GaP(W, settings.alpha, settings.beta)


def _fit_paper(
    engine: Engine, begun: Tree, settings: Settings, history: History, keep: Keep | None
) -> GaP:
    """The paper's protocol: so many iterations, each from the last draw of the one before.

    MCEM-H needs H alone, so its C is an expectation by definition.
    """
    sweeps = Sweeps(
        settings.n_draws,
        settings.n_burn_in,
        expectations=settings.algorithm == "mcem-h",
        sizes=settings.learn_alpha is not None,
    )
    step = m_step(settings)
    model, n_sweeps = unpack_model(begun["model"]), begun["n_sweeps"]

    def pack() -> Tree:
        return {"model": pack_model(model), "n_sweeps": n_sweeps}

    while len(history) < settings.max_iter:
        model = step(engine.advance(model, sweeps), model)
        n_sweeps += sweeps.n_burn_in + sweeps.n_draws
        if history.add(model, n_sweeps=n_sweeps):
            break
        if keep is not None:
            keep(pack)
    return model
