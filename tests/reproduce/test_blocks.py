"""Long runs in blocks: the same bits as one fit, whatever interrupts them."""

import numpy as np
import pytest
import scipy.sparse as sp

from gapmf.datasets import paper_synthetic
from gapmf.reproduce import ResultCache
from gapmf.reproduce.cache import LongRun, joined, paper_schedule

ENDS = (1, 4, 10)


@pytest.fixture(scope="module")
def X():
    return sp.csr_array(paper_synthetic(10.0, 30, random_state=0)[0])


def _estimator(algorithm="mcem-ch"):
    return paper_schedule(3, 10, n_draws=4, n_burn_in=2, seed=5).set_params(algorithm=algorithm)


def _run(X, folder, algorithm="mcem-ch", ends=ENDS):
    return LongRun(_estimator(algorithm), X, ResultCache(folder), "toy", {"data": "toy"}, ends)


@pytest.mark.parametrize("algorithm", ["mcem-c", "mcem-h", "mcem-ch"])
def test_blocks_are_the_fit(X, algorithm, tmp_path):
    for i in range(len(ENDS)):  # each by another process, as it were
        _run(X, tmp_path, algorithm).block(i)
    run = _run(X, tmp_path, algorithm)
    seconds, norms = joined([run.block(i) for i in range(len(ENDS))])
    est = _estimator(algorithm).fit(X)
    np.testing.assert_array_equal(norms, est.history_["norms"])
    np.testing.assert_array_equal(run.model(2).W, est.components_.T)
    assert (np.diff(seconds) > 0).all()


def test_the_last_block_asks_for_those_before_it(X, tmp_path):
    run = _run(X, tmp_path)
    run.block(2)
    assert [run.is_finished(i) for i in range(3)] == [True] * 3
    assert len(run.block(1)["norms"]) == 3
    kept = run.model(2).W
    run._state_file(1).unlink()  # what is missing is computed again
    assert not run.is_finished(1)
    assert len(run.block(1)["norms"]) == 3
    np.testing.assert_array_equal(_run(X, tmp_path).model(2).W, kept)


def test_a_longer_run_continues_a_shorter_one(X, tmp_path):
    _run(X, tmp_path, ends=ENDS[:2]).block(1)
    assert _run(X, tmp_path).is_finished(1)


def test_a_stopped_block_leaves_the_blocks_before_it(X, tmp_path):
    run = _run(X, tmp_path)
    run.block(0)
    run._cache.progress = lambda name, done, total: run._cache.stop.set()
    with pytest.raises(KeyboardInterrupt):
        run.block(2)
    assert [_run(X, tmp_path).is_finished(i) for i in range(3)] == [True, False, False]
