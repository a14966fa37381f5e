"""fig4 at a small size: which results depend on which settings, and how models are judged."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from gapmf import GaP, log_marginal_likelihood
from gapmf.datasets import paper_synthetic
from gapmf.reproduce import Options, ResultCache, fig4
from gapmf.reproduce.fig4 import Config, block_ends, protocol
from gapmf.reproduce.nips import Subset, judge

SMALL = Config(
    n_components=3,
    n_draws=2,
    n_burn_in=1,
    runs=protocol(4, 2, (0, 1)),
    milestones=(1, 4),
    n_particles=16,
)


@pytest.fixture(scope="module")
def X():
    return sp.csr_array(paper_synthetic(100.0, 12, random_state=0)[0])


@pytest.fixture
def names(X, tmp_path, monkeypatch):
    """Run fig4 with some settings, and return the names of the results that it computed."""
    monkeypatch.setattr(fig4, "load", lambda folder, part: X)

    def compute(config):
        before = set(tmp_path.iterdir())
        fig4.run(config, Options(), ResultCache(tmp_path))
        new = set(tmp_path.iterdir()) - before
        return sorted(path.name.rsplit("-", 1)[0] for path in new if path.suffix == ".json")

    return compute


def test_only_what_a_setting_changes_is_computed_again(names):
    first = names(SMALL)
    assert len(first) == 2 * 2 + 4 * 2 + 2 * 2 + 4  # blocks of six runs, and their likelihoods
    assert names(SMALL) == []
    judged = [name for name in first if "likelihood" in name]
    assert names(replace(SMALL, n_particles=32)) == judged
    assert names(replace(SMALL, n_burn_in=2)) == first
    longer = names(replace(SMALL, runs=protocol(6, 2, (0, 1))))
    assert longer == ["nips-mcem-c-seed0-to6", "nips-mcem-ch-seed0-to6"]


def test_components_of_runs_are_compared_two_by_two(X, tmp_path, monkeypatch):
    monkeypatch.setattr(fig4, "load", lambda folder, part: X)
    outcome = fig4.run(SMALL, Options(), ResultCache(tmp_path))
    found = {(*row["algorithms"], *row["seeds"]): row for row in outcome.findings["solutions"]}
    iterations = {key: row["iteration"] for key, row in found.items()}
    assert iterations == {
        ("mcem-ch", "mcem-c", 0, 0): 4,
        ("mcem-ch", "mcem-c", 1, 1): 2,
        ("mcem-ch", "mcem-h", 0, 0): 1,  # the milestone that both runs have
        ("mcem-ch", "mcem-h", 1, 1): 2,
        ("mcem-c", "mcem-c", 0, 1): 1,
    }
    assert all(0.0 < row["overlap"][0] <= 1.0 + 1e-12 for row in found.values())


def test_blocks_end_at_milestones_and_after_fifty_iterations():
    assert block_ends(120, (1, 20, 500)) == (1, 20, 50, 100, 120)


def test_every_model_is_judged_with_the_same_particles():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.3), 10).T
    X = sp.csr_array(GaP(100.0 * topics).sample(6, random_state=0))
    n_tokens, log_likelihood = judge(X, Subset(judged=2), 7, n_particles=16)
    assert n_tokens == X[::2].sum()
    for scale in (50.0, 200.0):
        model = GaP(scale * topics)
        ll = log_marginal_likelihood(X[::2], model, random_state=7, n_particles=16, escalate=False)
        assert ll.method == "auto (smc 3)"
        assert log_likelihood(model) == (ll.total, ll.std_error)
        assert judge(X, Subset(judged=2), 7)[1](model)[1] < ll.std_error  # by default, as needed
