"""Files that gapmf 0.1.0 wrote: models load, checkpoints are refused with a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gapmf
from gapmf import GammaPoissonMF, posterior_activations
from gapmf.errors import StorageError
from test_frozen_bits import ASKED, counts, digest

OLD = Path(__file__).parent / "data" / "0.1.0"
DIGEST = "879ab044f96af915797746de9b6a4631"  # of the arrays in mcem-c.gapmf


@pytest.mark.parametrize("name", ["mcem-c", "exact", "named"])
def test_a_model_loads(name, tmp_path):
    est = GammaPoissonMF.load(OLD / f"{name}.gapmf")
    assert est.history_["norms"].shape == (est.n_iter_, est.n_components)
    X = pd.DataFrame(counts()[:2], columns=getattr(est, "feature_names_in_", None))
    assert est.transform(X if name == "named" else X.to_numpy()).shape == (2, est.n_components)
    assert hasattr(est, "certificate_") == (name == "exact")
    if name == "named":
        assert list(est.feature_names_in_) == ["ape", "bee", "Kühe", "dog"]
    est.save(tmp_path / "again")
    again = GammaPoissonMF.load(tmp_path / "again")
    np.testing.assert_array_equal(again.components_, est.components_)
    assert again.get_params() == est.get_params()


def test_a_model_is_read_as_it_was_written():
    """The arrays have the bytes of the file, and answers follow from the model and its seed."""
    est = GammaPoissonMF.load(OLD / "mcem-c.gapmf")
    assert digest(est.components_, est.alpha_, est.feature_counts_) == DIGEST
    assert est.smoothing == 0.0  # as it was fitted, not today's default
    X = counts()[:ASKED]
    expected = posterior_activations(X, est.model_, quantiles=(), random_state=est._seed)
    np.testing.assert_array_equal(est.transform(X), expected.mean)


@pytest.mark.parametrize("name", ["adaptive", "saem", "finished"])
def test_a_checkpoint_says_which_version_reads_it(name, tmp_path):
    path = tmp_path / "fit"
    shutil.copy(OLD / f"{name}.checkpoint", path)
    wanted = f"checkpoint of gapmf 0.1.0, and this is {gapmf.__version__}: resume it with that"
    with pytest.raises(StorageError, match=wanted):
        GammaPoissonMF.resume(path, counts())
    if name != "finished":  # a finished one may be replaced
        with pytest.raises(StorageError, match=wanted):
            GammaPoissonMF(2, checkpoint=path).fit(counts())
    assert path.read_bytes() == (OLD / f"{name}.checkpoint").read_bytes()
