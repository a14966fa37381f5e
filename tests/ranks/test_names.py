"""Reports call features by their names, if the fit knew them."""

import re

import pandas as pd
import pytest

from gapmf import GammaPoissonMF
from gapmf.datasets import paper_synthetic


@pytest.mark.slow
def test_names_in_reports():
    X, _ = paper_synthetic(5.0, 20, random_state=0)
    frame = pd.DataFrame(X, columns=["ape", "bee", "cat", "dog"])
    named = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(frame)
    plain = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
    assert re.search(r"at '(ape|bee|cat|dog)'", str(named.rank_report(frame, criterion="bic")))
    assert re.search(r"at feature \d\b", str(plain.rank_report(X, criterion="bic")))
    said = str(named.stability(frame, n_fits=2, n_features=2))
    assert any(f"{name}: 0." in said for name in frame.columns)
    assert "feature " in str(plain.stability(X, n_fits=2, n_features=2)).splitlines()[1]
