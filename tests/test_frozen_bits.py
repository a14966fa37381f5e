"""The bits of small fits, scores and transforms, frozen: a change of structure must not move them.

The bits depend on the versions of the libraries and on the processor, so the file has a record for
each environment that they were frozen in; in others these tests are skipped. `python
tests/test_frozen_bits.py` adds the record of this environment or replaces it: on a new machine at a
commit that others have checked, and after a change that is meant to move the bits. Such a change
also removes the records of other environments, since it makes them wrong.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import warnings
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np
import pytest
import scipy

from gapmf import GammaPoissonMF, log_marginal_likelihood
from gapmf.datasets import paper_synthetic
from gapmf.model import GaP
from gapmf.storage import checkpoint

FROZEN = Path(__file__).parent / "data" / "frozen_bits.json"

MONTE_CARLO = [
    {"algorithm": algorithm, "schedule": schedule, "max_iter": 60}
    for algorithm in ("mcem-c", "mcem-ch", "mcem-h")
    for schedule in ("adaptive", "saem")
]
FITS = {
    **{f"{p['algorithm']} {p['schedule']}": p for p in MONTE_CARLO},
    **{
        f"{algorithm} paper": {
            "algorithm": algorithm,
            "schedule": "paper",
            "n_draws": 5,
            "n_burn_in": 3,
            "max_iter": 12,
        }
        for algorithm in ("mcem-c", "mcem-ch", "mcem-h")
    },
    "converged": {"n_components": 2},
    "learned alpha": {"learn_alpha": True, "max_iter": 60},
    "shared alpha, saem": {"learn_alpha": "shared", "schedule": "saem", "max_iter": 60},
    "learned alpha, paper": {
        "learn_alpha": True,
        "schedule": "paper",
        "n_draws": 4,
        "n_burn_in": 2,
        "max_iter": 10,
    },
    "small unequal alpha": {"alpha": [0.05, 0.3, 2.0], "beta": [1.0, 0.5, 3.0], "max_iter": 40},
    "three random starts": {"init": "random", "n_init": 3, "max_iter": 25},
    "seven components": {"n_components": 7, "max_iter": 30, "smoothing": 0.01},
    "one component": {"n_components": 1, "max_iter": 30},
    "exact": {"algorithm": "exact", "n_components": 2},
    "exact, learned alpha": {"algorithm": "exact", "n_components": 2, "learn_alpha": True},
    "em-c": {"algorithm": "em-c", "n_components": 2, "max_iter": 15},
    "em-ch": {"algorithm": "em-ch", "n_components": 2, "max_iter": 15},
    "em-c, learned alpha": {
        "algorithm": "em-c",
        "n_components": 2,
        "learn_alpha": True,
        "max_iter": 5,
    },
    "vbem": {"algorithm": "vbem", "max_iter": 30},
    "vbem, learned alpha": {"algorithm": "vbem", "learn_alpha": True, "max_iter": 30},
    "mjle": {"algorithm": "mjle", "alpha": [1.2, 2.0, 3.0], "max_iter": 30},
    "mjle, alpha 1": {"algorithm": "mjle", "max_iter": 30},
}
METHODS = ("enumerate", "polynomial", "quadrature", "importance", "chib", "smc", "reverse")
ASKED = 6  # samples that are scored and transformed


def digest(*arrays):
    """A hash of values, shapes and types."""
    content = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        content.update(f"{array.dtype.str}{array.shape}".encode())
        content.update(array.tobytes())
    return content.hexdigest()[:32]


def counts(scale=10):
    return paper_synthetic(scale=scale, n_samples=30, random_state=3)[0]


def fit(parameters, X, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GammaPoissonMF(
            **({"n_components": 3, "random_state": 5} | parameters | changes)
        ).fit(X)


def bits_of_fit(name):
    X = counts()
    est = fit(FITS[name], X)
    return {
        "components_": digest(est.components_, est.alpha_, est.history_["norms"]),
        "transform": digest(est.transform(X[:ASKED])),
        "score_samples": digest(est.score_samples(X[:ASKED])),
    }


def bits_of_method(method):
    few = method == "enumerate"
    rng = np.random.default_rng(8)
    model = GaP(rng.gamma(1.0, 2.0, (5, 3)), alpha=[0.3, 1.0, 4.0], beta=[1.0, 2.0, 1.0])
    X = model.sample(8, random_state=2)
    X = np.minimum(X, 3) if few else X
    ll = log_marginal_likelihood(X, model, method, random_state=4)
    return {"per_sample": digest(ll.per_sample), "std_errors": digest(ll.std_errors)}


def interrupted_and_resumed(parameters, X, folder):
    """A fit that is cut off between two iterations and goes on from its checkpoint."""
    path = Path(folder) / "fit.checkpoint"

    def cut(record):
        if record.iteration == 17:
            raise RuntimeError("cut")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
        patch.setattr(checkpoint, "_SHARE", 0.0)
        with pytest.raises(RuntimeError, match="cut"):
            fit(parameters, X, checkpoint=path, callbacks=[cut])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GammaPoissonMF.resume(path, X)


RESUMED = ("mcem-c adaptive", "mcem-ch saem", "learned alpha", "three random starts", "vbem")


def environment():
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
        "cpu": llvmlite.binding.get_host_cpu_name(),
    }


def frozen_here():
    """The record of this environment; without one the test is skipped."""
    records = json.loads(FROZEN.read_text())
    for record in records:
        if record["environment"] == environment():
            return record
    known = [record["environment"] for record in records]
    pytest.skip(f"frozen in {known}, but this is {environment()}")


@pytest.fixture(scope="module")
def frozen():
    return frozen_here()


def test_each_environment_has_one_record_of_everything():
    records = json.loads(FROZEN.read_text())
    environments = [tuple(sorted(record["environment"].items())) for record in records]
    assert len(set(environments)) == len(environments)
    for record in records:
        assert record["environment"].keys() == environment().keys()
        assert list(record["fits"]) == list(FITS)
        assert list(record["methods"]) == list(METHODS)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_has_the_same_bits(name, frozen):
    assert bits_of_fit(name) == frozen["fits"][name]


@pytest.mark.parametrize("method", METHODS)
def test_a_likelihood_has_the_same_bits(method, frozen):
    assert bits_of_method(method) == frozen["methods"][method]


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_fit_has_the_same_bits(name, frozen, tmp_path):
    est = interrupted_and_resumed(FITS[name], counts(), tmp_path)
    found = digest(est.components_, est.alpha_, est.history_["norms"])
    assert found == frozen["fits"][name]["components_"]


def freeze():
    """Write the record of this environment, beside those of others."""
    here = {
        "environment": environment(),
        "fits": {name: bits_of_fit(name) for name in FITS},
        "methods": {method: bits_of_method(method) for method in METHODS},
    }
    records = json.loads(FROZEN.read_text())
    others = [record for record in records if record["environment"] != environment()]
    FROZEN.write_text(json.dumps([*others, here], indent=1) + "\n")
    sys.stdout.write(f"{FROZEN.name} has {len(others) + 1} records; this one: {environment()}\n")


if __name__ == "__main__":
    freeze()
