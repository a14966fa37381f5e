"""The sampler's kernels are plain Python too: types are wider there, and bounds are checked."""

import os
import subprocess
import sys

import numpy as np
import pytest

from gapmf import GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.engines.allocation import Allocator
from gapmf.engines.base import State, Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.kernels.conditional_smc import estimate_above, make_room
from gapmf.kernels.particles import make_particles
from gapmf.likelihood import chib
from gapmf.likelihood.predictive import log_totals
from gapmf.likelihood.sample import draw_shapes, sample_of_row


def some_steps():
    """Every path of the kernels: all kinds of lanes, large and underflowing counts, any α."""
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (6, 5))
    X[0] = 0
    X[1, 1], X[2, 3] = 1000, 129
    W = rng.gamma(0.5, 1.0, (5, 6))
    W[:, 2] = 0.0
    W[4] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    model = GaP(W, alpha=[0.01, 0.3, 1.0, 0.002, 5.0, 1.0])
    out = []
    for sweeps in (
        Sweeps(2, 1, sizes=True),
        Sweeps(1, 0, sizes=True),
        Sweeps(1, 0, expectations=True),
        Sweeps(6, 1, expectations=True, sizes=True),
    ):
        engine = LocalEngine().load(check_counts(X), seed=2**40 + 1)
        s = engine.advance(model, sweeps)
        out += [s.c_sum, s.h_sum, engine.state.L]
        out += [] if s.sizes is None else [s.sizes]
        L = np.zeros((6, 6), dtype=np.int64)  # a state that W contradicts: totals underflow
        L[:, 0] = X.sum(axis=1)
        engine.state = State(L, 3)
        s = engine.advance(model, sweeps)
        out += [s.c_sum, s.h_sum, engine.state.L]
    X = np.array([[3, 2, 1], [5, 0, 360]])  # one by one, in batches, and moved
    model = GaP([[3.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.5, 0.2, 0.0]], alpha=[0.5, 1.0, 3.0])
    ll = log_marginal_likelihood(X, model, "smc", random_state=0, n_particles=32)
    out += [ll.per_sample, ll.std_errors]
    sample = sample_of_row(check_counts([[3, 20, 1]]), 0, model)
    key, name = np.uint64(1), 2
    shapes = draw_shapes(sample, np.ones(sample.alpha.size), key, name, 2, 4, 8)
    out += [shapes, chib.log_densities(sample, np.log(shapes[0]), key, name, 4)]
    at, path = make_particles(4, 2, 3), make_room(sample.counts, 2)
    above = estimate_above(
        np.arange(3),
        sample.counts,
        sample.p,
        sample.alpha,
        np.array([0.5, 2.0]),
        shapes[0],
        (key, np.uint64(3)),
        at,
        path,
    )
    wide = GaP(np.random.default_rng(1).gamma(0.5, 1.0, (5, 6)), alpha=1.5)
    for joint in (False, True):
        allocator = Allocator(check_counts(np.random.default_rng(0).poisson(3.0, (6, 5))))
        found = allocator.allocate(
            wide.event_probabilities, wide.alpha, np.ones((6, 6)), n_passes=2, joint=joint
        )
        out += [found.c_sum, found.L, found.weights, np.array([found.value])]
    law = log_totals(check_counts([[3, 20, 1], [0, 0, 0]]), model)
    return [*out, np.array([above]), law]


@pytest.mark.slow
def test_compiled_and_uncompiled_agree(tmp_path):
    """Draws are the same; sums of expectations differ by the rounding of fused multiplication."""
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, str(tmp_path / "steps.npz")],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain = np.load(tmp_path / "steps.npz")
    compiled = some_steps()
    assert len(plain.files) == len(compiled) > 15
    for name, x in zip(plain.files, compiled, strict=True):
        if x.dtype == np.int64:
            np.testing.assert_array_equal(x, plain[name])
        else:
            np.testing.assert_allclose(x, plain[name], rtol=1e-5, atol=1e-7)


if __name__ == "__main__":
    np.savez(sys.argv[1], *some_steps())
