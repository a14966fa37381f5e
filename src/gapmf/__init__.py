"""Gamma-Poisson factorisation of count matrices, by its marginal likelihood.

Everything public is named here and imported when it is first used (PEP 562), so that
``import gapmf`` and ``gapmf --help`` cost next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.2.0"

# The public names, by the module that holds them. Submodules stand for themselves.
_EXPORTS = {
    "GaP": "gapmf.model",
    "GammaPoissonMF": "gapmf.estimator",
    "NegativeMultinomial": "gapmf.distributions",
    "negative_binomial": "gapmf.distributions",
    "log_marginal_likelihood": "gapmf.likelihood.marginal",
    "split_marginal_cost": "gapmf.likelihood.marginal",
    "count_admissible": "gapmf.likelihood.planning",
    "posterior_moments": "gapmf.likelihood.moments",
    "posterior_activations": "gapmf.likelihood.posterior",
    "perplexity": "gapmf.likelihood.predictive",
    "document_completion": "gapmf.likelihood.predictive",
    "log_joint_likelihood": "gapmf.likelihood.joint",
    "split_joint_cost": "gapmf.likelihood.joint",
    "select_rank": "gapmf.selection",
    "fit_anndata": "gapmf.single_cell",
    "transform_anndata": "gapmf.single_cell",
    "compare_anndata": "gapmf.single_cell",
    "write_report": "gapmf.report",
    "read": "gapmf.io",
    "Shards": "gapmf.io.shards",
    "open_shards": "gapmf.io.shards",
    "write_shards": "gapmf.io.streams",
    "Table": "gapmf.io.table",
}
_SUBMODULES = ("datasets", "errors", "plot")

__all__ = [
    "GaP",
    "GammaPoissonMF",
    "NegativeMultinomial",
    "Shards",
    "Table",
    "__version__",
    "compare_anndata",
    "count_admissible",
    "datasets",
    "document_completion",
    "errors",
    "fit_anndata",
    "log_joint_likelihood",
    "log_marginal_likelihood",
    "negative_binomial",
    "open_shards",
    "perplexity",
    "plot",
    "posterior_activations",
    "posterior_moments",
    "read",
    "select_rank",
    "split_joint_cost",
    "split_marginal_cost",
    "transform_anndata",
    "write_report",
    "write_shards",
]

if TYPE_CHECKING:
    import gapmf.datasets as datasets
    import gapmf.errors as errors
    import gapmf.plot as plot
    from gapmf.distributions import NegativeMultinomial, negative_binomial
    from gapmf.estimator import GammaPoissonMF
    from gapmf.io import read
    from gapmf.io.shards import Shards, open_shards
    from gapmf.io.streams import write_shards
    from gapmf.io.table import Table
    from gapmf.likelihood.joint import log_joint_likelihood, split_joint_cost
    from gapmf.likelihood.marginal import log_marginal_likelihood, split_marginal_cost
    from gapmf.likelihood.moments import posterior_moments
    from gapmf.likelihood.planning import count_admissible
    from gapmf.likelihood.posterior import posterior_activations
    from gapmf.likelihood.predictive import document_completion, perplexity
    from gapmf.model import GaP
    from gapmf.report import write_report
    from gapmf.selection import select_rank
    from gapmf.single_cell import compare_anndata, fit_anndata, transform_anndata


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _EXPORTS:
        value: object = getattr(import_module(_EXPORTS[name]), name)
    elif name in _SUBMODULES:
        value = import_module(f"gapmf.{name}")
    else:
        raise AttributeError(f"module 'gapmf' has no attribute {name!r}")
    globals()[name] = value  # found once, then an ordinary attribute
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
