"""How kernels are compiled: once for each, and again after any kernel's source has changed."""

import os
import subprocess
import sys

import numpy as np
import pytest

from gapmf.kernels import jit
from gapmf.kernels.dictionary import scale_rows
from gapmf.kernels.gibbs_layout import next_lane

SIGNATURES = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
X = np.random.default_rng(0).poisson(2.0, (20, 6))
est = GammaPoissonMF(2, random_state=0, max_iter=5, tol=0.1, learn_alpha=True).fit(X)
est.transform(X[:3]), est.score(X[:3])
for algorithm in ("vbem", "mjle"):
    GammaPoissonMF(2, algorithm=algorithm, max_iter=3).fit(X)
model = GaP(np.random.default_rng(1).gamma(1.0, 1.0, (6, 4)), alpha=0.3)
log_marginal_likelihood(X[:2], model, "smc", random_state=0, n_particles=16)
for name, module in list(sys.modules.items()):
    if name.startswith("gapmf.kernels."):
        for value in vars(module).values():
            if isinstance(value, Dispatcher) and len(value.signatures) > 1:
                print(value.py_func.__qualname__, value.signatures)
"""


@pytest.mark.slow
def test_no_kernel_is_compiled_twice():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SIGNATURES],
        check=True, capture_output=True, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout == ""


def test_files_of_compiled_kernels_are_named_by_the_hash_of_all_sources():
    scale_rows(np.ones((1, 1)), np.ones(1), np.zeros((1, 1), dtype=np.float32))
    assert jit.VERSION in scale_rows.py_func.__qualname__
    assert {"gibbs.py", "jit.py", "random.py"} <= {path.name for path in jit.SOURCES}


def test_functions_for_kernels_run_from_python_too():
    assert next_lane(7, 128, 0, 1, 2) == (0, 1, 2, 3)
    assert next_lane(200, 128, 0, 1, 2) == (-1, 0, 1, 2)
