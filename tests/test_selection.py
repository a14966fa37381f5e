"""Ranks compared. Seeds are fixed."""

import numpy as np
import pytest

from gapmf import GammaPoissonMF, log_marginal_likelihood, select_rank
from gapmf.datasets import paper_synthetic

EXACT = GammaPoissonMF(algorithm="exact", random_state=0)


@pytest.mark.slow
def test_bic_and_held_out_counts_find_the_papers_rank():
    X, truth = paper_synthetic(scale=10, n_samples=300, random_state=0)
    found = select_rank(X, [3, 1, 2, 2], estimator=EXACT)
    assert found.n_components == 2
    np.testing.assert_array_equal(found.ranks, [1, 2, 3])
    for est, value in zip(found.estimators, found.log_likelihood, strict=True):
        assert log_marginal_likelihood(X, est.model_).total == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(
        found.bic, found.log_likelihood - found.ranks * 2 * np.log(300), rtol=1e-12
    )
    assert found.estimator is found.estimators[1]
    assert str(found).splitlines()[2].endswith("<- chosen")
    X_test = truth.sample(200, random_state=1)
    tested = select_rank(X, [1, 2, 3], X_test=X_test, estimator=EXACT)
    assert tested.n_components == 2
    assert tested.held_out_error[tested.held_out.argmax()] == 0.0
    np.testing.assert_array_equal(tested.bic, found.bic)
    assert repr(tested) == "RankSelection(n_components=2, ranks=[1, 2, 3])"


@pytest.mark.slow
def test_pruning_down():
    X, _ = paper_synthetic(scale=10, n_samples=300, random_state=0)
    found = select_rank(X, [1, 2, 3], how="prune", estimator=EXACT)
    assert found.n_components == 2
    np.testing.assert_array_equal(found.ranks, [2, 3])
    assert EXACT.n_components == 10  # untouched


def test_monte_carlo_fits():
    X, _ = paper_synthetic(scale=10, random_state=0)
    est = GammaPoissonMF(tol=1e-3, random_state=0)
    assert select_rank(X, (1, 2), estimator=est).n_components == 2


def test_refusals():
    X = np.array([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="at least one rank"):
        select_rank(X, [])
    with pytest.raises(ValueError, match="n_components must be a whole number, 1 or more"):
        select_rank(X, [0])
    with pytest.raises(ValueError, match=r"how must be one of .*, but is 'guess'"):
        select_rank(X, [1], how="guess")
