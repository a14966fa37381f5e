"""What a report tells: computed here, put into words in `about_*`."""

from __future__ import annotations

import re
import shlex
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from sklearn.utils.validation import check_is_fitted

from gapmf.analysis.predictive_check import PredictiveCheck
from gapmf.counts import is_anndata, is_frame
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP
from gapmf.plot.arrange import (
    component_colours,
    group_names,
    has_group,
    parse_image,
    share_order,
    similarity,
)
from gapmf.progress import progress_bar
from gapmf.ranks.features import order_features, visible_features
from gapmf.ranks.report import RankReport
from gapmf.report.elements import Html, tag
from gapmf.types import Array, Index

MAX_SAMPLES = 2000  # whose components are computed and listed: a random choice of more
MAX_GROUPS = 30  # by name; smaller ones are put together
OTHER_GROUPS = "other groups"
TOP = 30  # distinctive features per component that can be searched
LABEL_LENGTH = 24
PRECISION = 1e-3  # of the log-likelihood, in nats per count: a small part of the fit's time
MIN_SHARE = 0.02  # of a sample's component, to be worth a word
LOG_SHAPES = (-9.0, 16.0)  # of the model with one component
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|[a-zA-Z]+")  # of those in style sheets


@dataclass(frozen=True)
class Samples:
    """Samples and their components; (M, K) arrays, or (M,)."""

    chosen: NDArray[np.intp]
    """Their numbers among all samples."""
    names: list[str]
    counts: sp.csr_array
    totals: Array
    proportions: Array
    deviations: Array
    reliable: NDArray[np.bool_]
    groups: list[str] | None
    group_order: list[str]
    group_colours: dict[str, str]


@dataclass(frozen=True)
class Data:
    """What the counts tell about the model."""

    n_samples: int
    n_counts: int
    of_the_fit: bool
    log_likelihood: LogLikelihood
    one_component: float
    """The log-likelihood of one component with the frequencies of the fit; nan if entries are
    unobserved."""
    check: PredictiveCheck | None
    samples: Samples


@dataclass(frozen=True)
class Content:
    """All that a report tells."""

    est: GammaPoissonMF
    title: str
    model_name: str | None
    data_name: str | None
    order: NDArray[np.intp]
    colours: list[str]
    names: Sequence[Any]
    """Of the features."""
    top: NDArray[np.int64]
    """The most distinctive features of each component, (n, K)."""
    labels: list[str]
    overlap: Array
    image: tuple[int, int] | None
    data: Data | None
    rank_report: RankReport | None
    seconds: float

    @property
    def model(self) -> GaP:
        """The fitted model."""
        return self.est.model_

    def listed(self, k: int) -> NDArray[np.int64]:
        """The distinctive features of component k that are worth showing."""
        return _listed(self.model, self.top, k)


@dataclass(frozen=True)
class Wanted:
    """What a user asks for: see `gapmf.write_report`."""

    sample_names: Any = None
    groups: Any = None
    group_colours: dict[str, str] | None = None
    image: Any = None
    exposure: Any = None
    observed: Any = None
    rank_report: RankReport | bool = False
    title: str | None = None
    model_name: str | None = None
    data_name: str | None = None


def collect(est: GammaPoissonMF, X: Any, wanted: Wanted) -> Content:
    """Compute what a report tells."""
    start = time.perf_counter()
    check_is_fitted(est, "model_")
    model = est.model_
    image = parse_image(wanted.image, model.n_features)
    if X is None:
        for name in ("sample_names", "groups", "exposure", "observed"):
            if getattr(wanted, name) is not None:
                raise InvalidInputError(f"{name} is about data: give the data, too")
        if wanted.rank_report is True:
            raise InvalidInputError("the rank report needs data: give the counts of the fit, too")
    names = getattr(est, "feature_names_in_", None)
    data, ranks = None, wanted.rank_report if isinstance(wanted.rank_report, RankReport) else None
    if ranks is not None and ranks.keep.size != model.n_components:
        raise InvalidInputError(
            f"the rank report is about {ranks.keep.size} components, but the model has "
            f"{model.n_components}: make one of this model, by est.rank_report(X)"
        )
    if X is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            data = _ask(est, X, wanted)
            if wanted.rank_report is True:
                how = {"exposure": wanted.exposure, "observed": wanted.observed}
                ranks = est.rank_report(X, **how)
    names = range(model.n_features) if names is None else names
    with progress_bar(est.verbose, "features") as progress:
        top = order_features(model, est.feature_counts_, n=TOP, progress=progress)
    return Content(
        est=est,
        title=wanted.title or _title(model, wanted.data_name),
        model_name=wanted.model_name,
        data_name=wanted.data_name,
        order=share_order(model),
        colours=component_colours(model),
        names=names,
        top=top,
        labels=[""] * model.n_components if image else _labels(model, top, names),
        overlap=similarity(model),
        image=image,
        data=data,
        rank_report=ranks,
        seconds=time.perf_counter() - start,
    )


def _title(model: GaP, data_name: str | None) -> str:
    some = "1 component" if model.n_components == 1 else f"{model.n_components} components"
    return f"{some} of {data_name}" if data_name else f"{some} of counts"


def _listed(model: GaP, top: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    return np.asarray(top[visible_features(model.W[:, k])[top[:, k]], k])


def _labels(model: GaP, top: Index, names: Sequence[Any]) -> list[str]:
    """Return the first features of each component, as many as are short enough; 3 at most."""
    labels = []
    for k in range(model.n_components):
        words = [str(names[f]) for f in _listed(model, top, k)[:3]]
        while len(words) > 1 and len(", ".join(words)) > LABEL_LENGTH:
            words.pop()
        label = ", ".join(words)
        labels.append(label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…")
    return labels


def _ask(est: GammaPoissonMF, X: Any, wanted: Wanted) -> Data:
    """Ask the model about counts."""
    how = {"exposure": wanted.exposure, "observed": wanted.observed}
    counts, model, observation = est._check_observed_samples(X, **how)
    N = counts.shape[0]
    names = _sample_names(X, wanted.sample_names, N)
    groups, places, colours = _groups(X, wanted, N)
    found = est.log_likelihood(X, precision=PRECISION, total_only=True, **how)
    some = np.arange(N)
    if N > MAX_SAMPLES:
        some = np.sort(np.random.default_rng(0).choice(N, MAX_SAMPLES, replace=False))
    posterior = est._posterior_of(
        est._only_known(counts)[some],
        model,
        "posterior",
        observation=None if observation is None else observation.take(some),
        quantiles=(0.05, 0.95),  # with these come the standard deviations
    )
    samples = Samples(
        chosen=some,
        names=[names[n] for n in some],
        counts=counts[some],
        totals=np.asarray(counts[some].sum(axis=1), dtype=float).reshape(-1),
        proportions=posterior.proportions,
        deviations=posterior.proportions_std,
        reliable=posterior.reliable,
        groups=None if groups is None else [groups[n] for n in some],
        group_order=places,
        group_colours=colours,
    )
    masked = observation is not None and observation.entries is not None
    exposure = None if observation is None else observation.exposure
    return Data(
        n_samples=N,
        n_counts=int(counts.sum()),
        of_the_fit=np.array_equal(np.asarray(counts.sum(axis=0)), est.feature_counts_),
        log_likelihood=found,
        one_component=np.nan if masked else _one_component(est, counts, exposure),
        check=None if masked else est.predictive_check(X, exposure=wanted.exposure),
        samples=samples,
    )


def _one_component(est: GammaPoissonMF, counts: sp.csr_array, exposure: Array | None) -> float:
    """Return the log-likelihood of the best model with one component, for comparison.

    Its frequencies of features are those of the fit. The shape and the mean of the totals, which
    are negative binomial given the exposures s, are the most likely ones.
    """
    totals = np.asarray(counts.sum(axis=1), dtype=float).reshape(-1)
    s = np.ones(totals.size) if exposure is None else exposure
    mean = float(totals.sum() / s.sum())
    if mean == 0.0:
        return np.nan

    def loss(logs: Array) -> float:
        alpha, expected = np.exp(logs[0]), s * np.exp(logs[1])
        return -float(stats.nbinom.logpmf(totals, alpha, alpha / (alpha + expected)).sum())

    # If all s are 1, this is the most likely mean whatever the shape; else a good start.
    m = np.log(mean)
    shape = minimize_scalar(lambda x: loss(np.array([x, m])), bounds=LOG_SHAPES, method="bounded").x
    best = np.array([shape, m])
    if exposure is not None:
        bounds = (LOG_SHAPES, (m - 10.0, m + 10.0))
        best = minimize(loss, best, bounds=bounds, method="Nelder-Mead").x
    alpha, mean = map(float, np.exp(best))
    profile = est.feature_counts_ / max(float(est.feature_counts_.sum()), 1.0)
    one = GaP(profile[:, None] * mean / alpha, alpha, 1.0)
    smooth = one.smoothed(est.feature_counts_, est.smoothing)
    return log_marginal_likelihood(counts, smooth, exposure=exposure).total


def _sample_names(X: Any, given: Any, N: int) -> list[str]:
    """Return the names that were given, or those in X, or numbers."""
    if given is None:
        given = getattr(X, "obs_names", None)
    if given is None and is_frame(X) and hasattr(X, "index"):
        given = X.index
    if given is None:
        return [str(n) for n in range(N)]
    names = [str(name) for name in given]
    if len(names) != N:
        raise InvalidInputError(f"sample_names are {len(names):,}, but there are {N:,} samples")
    return names


def _groups(X: Any, wanted: Wanted, N: int) -> tuple[list[str] | None, list[str], dict[str, str]]:
    """Return the group of each sample, the groups in order, and colours that they have."""
    groups, colours = wanted.groups, dict(wanted.group_colours or {})
    if groups is None:
        return None, [], {}
    if isinstance(groups, str):
        if not is_anndata(X):
            raise InvalidInputError(
                f"groups is {groups!r}, a column of `obs`, but X is no AnnData: give one group per "
                "sample"
            )
        from gapmf.plot.arrange import obs_groups

        groups, colours = obs_groups(X, groups)
    if len(groups) != N:
        raise InvalidInputError(f"groups has {len(groups):,} entries, but there are {N:,} samples")
    known = has_group(groups)
    places = [str(name) for name in group_names(groups)]
    found = [str(g) if there else "without a group" for g, there in zip(groups, known, strict=True)]
    if not all(known):
        places.append("without a group")
    if len(places) > MAX_GROUPS:
        sizes = {name: found.count(name) for name in places}
        kept = set(sorted(places, key=lambda name: -sizes[name])[: MAX_GROUPS - 1])
        places = [*(name for name in places if name in kept), OTHER_GROUPS]
        found = [name if name in kept else OTHER_GROUPS for name in found]
    good = {str(name): colour for name, colour in colours.items() if COLOUR.fullmatch(str(colour))}
    return found, places, good


def chips(content: Content) -> list[tuple[int, str]]:
    """Return the number and label of each component, in order of their shares."""
    return [(int(k), content.labels[k]) for k in content.order]


def file_names(content: Content) -> tuple[str, ...]:
    """Return the names of the files of the model and of the data, for commands."""
    return tuple(
        default if name is None else shlex.quote(name)
        for name, default in ((content.model_name, "MODEL"), (content.data_name, "DATA"))
    )


def missing(what: str, content: Content, option: str, more: str = "") -> Html:
    """Say how to get what is not in this report."""
    model, data = file_names(content)
    needs = "" if content.data is not None else " needs data, and"
    return tag(
        "div",
        tag("p", f"{what}{needs} is not in this report.{more} To add it:"),
        tag("pre", tag("code", f"gapmf report {model} --data {data}{option} -o report.html")),
        class_="note",
    )
