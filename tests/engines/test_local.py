"""The local engine: what it adds up does not depend on how the work was shared out."""

import itertools
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf import GaP
from gapmf.counts import check_counts
from gapmf.engines.base import State, Sweeps
from gapmf.engines.local import LEAST_SHARE, LocalEngine, scale_for, scales_for, to_statistics
from gapmf.engines.parts import _n_ranges, _range, add_sums, extent_of, lay_out
from gapmf.errors import InvalidInputError, TooCostlyError
from gapmf.kernels.dictionary import balance_rows, make_weights
from gapmf.parallel import map_reduce


def uneven_counts(N=150, F=40, seed=0):
    """Empty samples, long ones, and counts on both sides of what is drawn token by token."""
    rng = np.random.default_rng(seed)
    X = rng.negative_binomial(0.2, 0.05, (N, F)) * rng.integers(0, 2, (N, 1))
    X[3, 5], X[7, 0] = 129, 100_000
    return X


def a_model(F=40, K=5, seed=1, alpha=0.3):
    return GaP(np.random.default_rng(seed).gamma(0.4, 1.0, (F, K)) + 1e-6, alpha=alpha)


def run(engine, X, model, sweeps, n=3):
    engine.load(check_counts(X), seed=17)
    return [engine.advance(model, sweeps) for _ in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("expectations", [False, True])
@pytest.mark.parametrize("n_draws", [1, 6])
@pytest.mark.parametrize(
    ("n_jobs", "block_size"),
    [(1, 1), (1, 64), (1, 1000), (2, None), (5, None), (5, 1), (2, 64), (-1, 7)],
)
def test_threads_and_blocks_change_no_bit(expectations, n_draws, n_jobs, block_size):
    X, model = uneven_counts(), a_model()
    sweeps = Sweeps(n_draws, 1, expectations=expectations, sizes=True)
    reference = LocalEngine()
    other = LocalEngine(n_jobs, block_size)
    pairs = zip(run(reference, X, model, sweeps), run(other, X, model, sweeps), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a.c_sum, b.c_sum)
        np.testing.assert_array_equal(a.h_sum, b.h_sum)
        np.testing.assert_array_equal(a.sizes, b.sizes)
    np.testing.assert_array_equal(reference.state.L, other.state.L)


@given(cut=st.integers(1, 29), seed=st.integers(0, 10**6), expectations=st.booleans())
@settings(max_examples=30, deadline=None)
def test_parts_of_the_data_add_up_to_the_same_bits(cut, seed, expectations):
    """Rows are drawn by their number in the whole data, and summed in its units."""
    X, model = uneven_counts(30, 8, seed), a_model(8)
    X[0, 0] = 1
    counts = check_counts(X)
    sweeps = Sweeps(4, 2, expectations=expectations)
    engine = LocalEngine().load(counts, seed=3)
    whole = engine.advance(model, sweeps)
    scales = scales_for(engine.totals, 30, model, sweeps)
    parts = [
        LocalEngine().load(counts[rows], seed=3, first_sample=first).collect(model, sweeps, scales)
        for rows, first in ((slice(0, cut), 0), (slice(cut, 30), cut))
    ]
    total = to_statistics(add_sums(parts), scales, engine.totals, 30, model, sweeps)
    np.testing.assert_array_equal(total.c_sum, whole.c_sum)
    np.testing.assert_array_equal(total.h_sum, whole.h_sum)
    assert total.n_draws == whole.n_draws


@pytest.mark.parametrize("expectations", [False, True])
def test_rows_sum_exactly(expectations):
    X, model = uneven_counts(), a_model()
    for n_draws in (1, 2, 5):
        s = (
            LocalEngine()
            .load(check_counts(X), seed=0)
            .advance(model, Sweeps(n_draws, expectations=expectations))
        )
        exact = n_draws * X.sum(axis=0)
        np.testing.assert_allclose(s.c_sum.sum(axis=1), exact, rtol=4e-16, atol=0)
        assert (s.c_sum >= 0).all()
        assert s.n_draws == n_draws * len(X)


def test_expectations_keep_rare_components():
    """Draws lose a feature of small weight at once; expectations do not."""
    X = check_counts(np.ones((5, 3), dtype=int))
    W = np.column_stack([np.ones(3), [1e-9, 1e-30, 1e-300]])
    lost = LocalEngine().load(X, seed=0).advance(GaP(W), Sweeps(3))
    kept = LocalEngine().load(X, seed=0).advance(GaP(W), Sweeps(3, expectations=True))
    assert (lost.c_sum[:, 1] == 0).all()
    assert (kept.c_sum[:, 1] > 0).all()


def test_dense_and_sparse_are_the_same():
    X, model = uneven_counts(), a_model()
    results = [
        LocalEngine().load(check_counts(form(X)), seed=0).advance(model, Sweeps(2)).c_sum
        for form in (np.asarray, sp.csr_array, sp.csc_array, sp.coo_array, np.float64)
    ]
    for c_sum in results[1:]:
        np.testing.assert_array_equal(c_sum, results[0])


@pytest.mark.parametrize(("N", "F", "K"), [(1, 1, 1), (1, 5, 3), (4, 1, 2), (3, 6, 7), (2, 3, 1)])
def test_smallest_shapes(N, F, K):
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (N, F))
    s = (
        LocalEngine()
        .load(check_counts(X), seed=0)
        .advance(GaP(rng.gamma(1.0, 1.0, (F, K))), Sweeps(3, 1, expectations=True))
    )
    assert s.c_sum.shape == (F, K)
    np.testing.assert_allclose(s.c_sum.sum(axis=1), 3.0 * X.sum(axis=0))
    if K == 1:
        np.testing.assert_allclose(s.c_sum[:, 0], 3.0 * X.sum(axis=0))


def test_nothing_at_all():
    engine = LocalEngine().load(check_counts(np.zeros((4, 3), dtype=int)), seed=0)
    s = engine.advance(GaP(np.zeros((3, 2)), alpha=0.5), Sweeps(5, sizes=True))
    assert (s.c_sum == 0).all()
    assert (s.h_sum > 0).all()
    np.testing.assert_array_equal(s.sizes, [[20], [20]])


def test_an_impossible_dictionary_is_refused_and_the_state_stays():
    engine = LocalEngine().load(check_counts([[1, 2], [0, 1]]), seed=0)
    engine.advance(GaP(np.ones((2, 2))), Sweeps(1))
    before = engine.state
    with pytest.raises(InvalidInputError, match="feature 1 has counts, but row 1 of W is 0"):
        engine.advance(GaP([[1.0, 2.0], [0.0, 0.0]]), Sweeps(1))
    np.testing.assert_array_equal(engine.state.L, before.L)
    assert engine.state.iteration == before.iteration == 1


def test_units_are_the_finest_that_keep_sums_exact():
    largest = np.array([0.0, 1.0, 3.0, 1e6, 2.0**40, 2.0**40 + 1, 1e30])
    most = np.maximum(largest, 1.0) * scale_for(largest)
    assert (most <= 2.0**51).all()
    assert (most > 2.0**50).sum() == len(most)


def test_settling():
    """Rows sum exactly, by their largest entry; what is positive stays so; what is 0 too."""
    c = np.array([[3.0, 5.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0**40, 0.0]])
    W = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1e-300, 1.0, 0.0]])
    out, scale = np.empty_like(c), np.array([1.0, 2.0, 4.0])
    balance_rows(0, 3, c, W, np.array([9.0, 0.0, 2.0**40]), LEAST_SHARE, scale, out)
    np.testing.assert_array_equal(
        out * scale[:, None], [[3.0, 6.0, 0.0], [0.0, 0.0, 0.0], [2.0**7, 2.0**40 - 2.0**7, 0.0]]
    )


def test_weights_are_scaled_by_row():
    W, one = np.array([[1e-290, 2e-290, 0.0], [0.0, 0.0, 0.0]]), np.ones(3)
    rows = make_weights(W, W.sum(axis=0), one, one).rows.reshape(2, 4)
    np.testing.assert_array_equal(rows, [[0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_ctrl_c_is_answered_and_the_state_stays(n_jobs):
    """Work for many seconds, interrupted: soon, and as if it had not begun."""
    X = np.random.default_rng(0).poisson(1.0, (400, 200))
    model = a_model(200, 20)
    engine = LocalEngine(n_jobs).load(check_counts(X), seed=1)
    engine.advance(model, Sweeps(1))  # compiles
    before = engine.state
    pressed = []

    def press():
        pressed.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    # A shell starts what runs in the background without it.
    before_test = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, press)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.advance(model, Sweeps(5000))
    finally:
        signal.signal(signal.SIGINT, before_test)
    assert time.perf_counter() - pressed[0] < 4.0  # on a busy machine; the whole takes much longer
    np.testing.assert_array_equal(engine.state.L, before.L)
    fresh = LocalEngine().load(check_counts(X), seed=1)
    fresh.advance(model, Sweeps(1))
    np.testing.assert_array_equal(
        engine.advance(model, Sweeps(2)).c_sum, fresh.advance(model, Sweeps(2)).c_sum
    )


def test_an_error_in_a_thread_stops_the_others():
    done = []

    def work(task, local):
        if task == 2:
            raise RuntimeError("no")
        time.sleep(0.01)
        done.append(task)

    with pytest.raises(RuntimeError, match="no"):
        map_reduce(work, range(500), list, 3)
    assert len(done) < 50


@pytest.mark.parametrize("block_size", [None, 1, 64])
def test_ranges_cover_every_sample_once(block_size):
    layout = lay_out(check_counts(uneven_counts()), 12)
    for factor in (1, 10**4, 10**7, 10**9):
        n = _n_ranges(extent_of(layout), factor, 3, block_size)
        ranges = [_range(layout.work, i, n, block_size) for i in range(n)]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == 150
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
        assert all(first <= last for first, last in ranges)


@pytest.mark.parametrize("exponent", [-200, -40, 40, 200])
@pytest.mark.parametrize("expectations", [False, True])
def test_the_scale_between_w_and_beta_changes_no_bit(exponent, expectations):
    """GaP(W Λ, β Λ) is the same law: by powers of two, the same draws and the same sums."""
    X, model = uneven_counts(60, 12), a_model(12, 3)
    scale = np.array([1.0, 2.0**exponent, 2.0 ** (exponent // 2)])
    other = GaP(model.W * scale, model.alpha, model.beta * scale)
    sweeps = Sweeps(3, 2, expectations=expectations)
    a = LocalEngine().load(check_counts(X), seed=0).advance(model, sweeps)
    b = LocalEngine().load(check_counts(X), seed=0).advance(other, sweeps)
    np.testing.assert_array_equal(a.c_sum, b.c_sum)
    np.testing.assert_array_equal(a.h_sum, b.h_sum * scale)


def test_small_features_and_components_beside_huge_ones():
    """A feature of 2⁵² counts, or a component of a thousand million, does not drown the others."""
    X = np.zeros((2000, 2), dtype=np.int64)
    X[:, 1] = 1
    X[0, 0] = 2**52
    model = GaP([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], alpha=50.0)
    s = LocalEngine().load(check_counts(X), seed=0).advance(model, Sweeps(1, 5, expectations=True))
    assert s.c_sum[1, 0] == 0.0
    np.testing.assert_allclose(s.c_sum[1, 1:], 1000.0, atol=60)
    for v in (10**3, 10**9, 10**10):
        engine = LocalEngine().load(check_counts(np.full((1000, 1), v)), seed=0)
        s = engine.advance(GaP([[1.0, 0.0]], alpha=[1.0, 0.05]), Sweeps(150))
        # 150,000 draws of variance 0.05: six standard errors
        assert s.h_sum[1] / s.n_draws == pytest.approx(0.05, abs=6 * np.sqrt(0.05 / 150_000))
    X = np.random.default_rng(0).poisson(1.0, (100, 4))
    model = GaP(np.ones((4, 2)), alpha=[1e15, 1.0], beta=[1e15, 1.0])
    s = LocalEngine().load(check_counts(X), seed=0).advance(model, Sweeps(50, 10))
    assert s.h_sum[0] / s.n_draws == pytest.approx(1.0, rel=1e-6)
    assert 0.2 < s.h_sum[1] / s.n_draws < 1.0


def test_enormous_dictionaries():
    X = check_counts(np.array([[5, 7, 3]] * 20))
    W = np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 3.0]])
    for scale in (1e-300, 1e300):
        s = LocalEngine().load(X, seed=0).advance(GaP(W * scale), Sweeps(10, 3))
        assert (s.h_sum > 0).all()
        assert np.isfinite(s.h_sum).all()
        np.testing.assert_array_equal(s.c_sum.sum(axis=1), [1000, 1400, 600])


def test_sums_that_doubles_cannot_hold_are_refused():
    X = check_counts(np.full((1025, 1), 2**53 - 1))
    engine = LocalEngine().load(X, seed=0)
    assert engine.totals[0] == pytest.approx(1025 * 2.0**53)
    with pytest.raises(
        InvalidInputError, match=r"feature 0 add up to 9.23e\+18, which with 1 draws"
    ):
        engine.advance(GaP([[1.0]]), Sweeps(1))
    engine = LocalEngine().load(X[:1], seed=0)
    with pytest.raises(InvalidInputError, match="with 150 draws is more than"):
        engine.advance(GaP([[1.0, 1.0]]), Sweeps(150))
    assert engine.advance(GaP([[1.0, 1.0]]), Sweeps(1)).c_sum.sum() == 2**53 - 1


def test_models_and_states_of_other_data_are_refused():
    engine = LocalEngine().load(check_counts([[1, 2], [0, 1]]), seed=0)
    with pytest.raises(InvalidInputError, match="the model has 1 features, but the counts have 2"):
        engine.advance(GaP([[1.0, 1.0]]), Sweeps(1))
    with pytest.raises(InvalidInputError, match="state is of 1 samples, but there are 2"):
        engine.state = State(np.array([[1, 2]]), 0)
    with pytest.raises(InvalidInputError, match="state of sample 1 must add up to its 1 counts"):
        engine.state = State(np.array([[1, 2], [1, 1]]), 0)
    with pytest.raises(InvalidInputError, match="state of sample 0 must add up to its 3 counts"):
        engine.state = State(np.array([[-1, 4], [1, 0]]), 0)
    engine.state = State(np.array([[1, 2], [-1, -1]]), 4)
    engine.advance(GaP(np.ones((2, 2))), Sweeps(1))
    assert engine.state.iteration == 5
    with pytest.raises(
        InvalidInputError, match="the chains have 2 components, but the model has 3"
    ):
        engine.advance(GaP(np.ones((2, 3))), Sweeps(1))


def test_a_histogram_beyond_memory_is_refused():
    engine = LocalEngine().load(check_counts([[10**9, 2]]), seed=0)
    with pytest.raises(TooCostlyError, match="takes more than 2 GiB"):
        engine.advance(GaP(np.ones((2, 2))), Sweeps(1, sizes=True))


def test_ctrl_c_while_sums_are_converted_leaves_the_state(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    engine = LocalEngine().load(check_counts([[1, 2], [0, 1]]), seed=0)
    with monkeypatch.context() as patch:
        patch.setattr("gapmf.engines.local.to_statistics", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.advance(GaP(np.ones((2, 2))), Sweeps(1))
    assert engine.state.iteration == 0
    assert (engine.state.L == -1).all()
