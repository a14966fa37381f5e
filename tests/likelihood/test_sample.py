"""One sample: posterior draws of its component sizes, and its random streams."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sample_cases import a_sample
from scipy import stats

from component_sizes import law_of_sizes
from gapmf.errors import InvalidInputError
from gapmf.likelihood.sample import draw_shapes, max_particles, particles_per_run, stream_keys

FIRST_KEY = 16047000857053376359


@pytest.mark.parametrize("guide", [[0.0, 0.0], [3.0, 0.5]])
def test_chains_draw_the_law_of_sizes(guide):
    """L of the chains against its exact law: χ² at the 0.1 % level, with sweeps thinned."""
    model, sample, _ = a_sample([[3.0, 1.0], [0.5, 2.0]], [0.3, 0.8], [6, 5])
    sizes, law = law_of_sizes([6, 5], model)
    shapes = draw_shapes(sample, np.array(guide), np.uint64(3), 7, 6000, 4, 8)
    L = np.rint(shapes[:, 0] - sample.alpha[0]).astype(int).reshape(6000, 4)[::6].ravel()
    expected = np.bincount(sizes[:, 0], weights=law)
    seen = np.bincount(L, minlength=expected.size)
    keep = expected * L.size > 5
    statistic = ((seen - expected * L.size)[keep] ** 2 / (expected * L.size)[keep]).sum()
    assert statistic < stats.chi2(keep.sum() - 1).ppf(0.999)


def test_keys_of_streams_are_stable():
    """They must not change from one machine, process or version to the next."""
    rows = sp.csr_array(np.array([[0, 3, 0, 1], [3, 0, 0, 1]]))
    first, second = (stream_keys(rows, n, 8, 4) for n in (0, 1))
    assert len({*first, *second}) == 8
    wide = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr), rows.shape)
    assert stream_keys(wide, 0, 8, 4) == first
    assert first[0] == FIRST_KEY


def test_particles_are_shared_out_among_runs():
    """A multiple of four for each run, at least as many as asked for in all, or the default."""
    assert particles_per_run(None, 3, 288, 4) == 72
    assert particles_per_run(17, 3, 288, 4) == 8
    assert particles_per_run(100, 3, 128, least=32) == 100
    most = max_particles(1000)
    assert (
        particles_per_run(None, 1000, 10**9, 2) == most == particles_per_run(2 * most, 1000, 8, 2)
    )
    with pytest.raises(InvalidInputError, match="there are random numbers for"):
        particles_per_run(2 * most + 1, 1000, 8, 2)
    with pytest.raises(InvalidInputError, match="whole number, 16 or more"):
        particles_per_run(15, 3, 288, 4)
