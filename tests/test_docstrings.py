"""Docstrings of the public API follow numpydoc: sections, parameters, types and defaults."""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from importlib import import_module

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

import gapmf
from gapmf import datasets, errors, plot

# What public calls return, beside the classes in gapmf.__all__.
RESULTS = [
    "gapmf.analysis.groups.GroupComparison",
    "gapmf.analysis.predictive_check.PredictiveCheck",
    "gapmf.analysis.recommend.Recommendations",
    "gapmf.em.history.Iteration",
    "gapmf.em.history.Certificate",
    "gapmf.likelihood.joint.JointCostSplit",
    "gapmf.likelihood.marginal.MarginalCostSplit",
    "gapmf.likelihood.posterior.Posterior",
    "gapmf.likelihood.moments.PosteriorMoments",
    "gapmf.likelihood.predictive.Completion",
    "gapmf.likelihood.predictive.Perplexity",
    "gapmf.likelihood.result.LogLikelihood",
    "gapmf.model.Latent",
    "gapmf.ranks.report.RankReport",
    "gapmf.likelihood.information.StandardErrors",
    "gapmf.ranks.stability.Stability",
    "gapmf.selection.RankSelection",
    "gapmf.Table",
]

# Left out: ES01 (an extended summary is not always needed), GL01 and GL02 (where quotes stand),
# SS05 (replaced by VERBS), SA01 and EX01 (demanded below, where they make sense).
CODES = {
    *("GL03", "GL05", "GL06", "GL07", "GL08", "GL10", "SS01", "SS02", "SS03", "SS04", "SS06"),
    *("PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10"),
    *("RT01", "RT02", "RT03", "RT04", "RT05", "SA02", "SA03", "SA04"),
}
SIGNATURE = {"PR01", "PR02", "PR03"}

# The summary of a function or method starts with one of these. Add a verb when you need it.
VERBS = {
    *("Apply", "Choose", "Compute", "Continue", "Count", "Draw", "Estimate", "Evaluate", "Fit"),
    *("Fetch", "List", "Load", "Make", "Mark", "Measure", "Mix", "Name", "Predict", "Put", "Read"),
    *("Refit", "Remove", "Report", "Rescale", "Return", "Save", "Score", "Split", "Transform"),
    *("Update", "Open", "Write"),
}

# Methods from the literature are cited, by the first author of each reference.
CITED = {
    "gapmf.GaP": {"Filstroff"},
    "gapmf.GaP.sample": {"Filstroff", "Marsaglia"},
    "gapmf.GammaPoissonMF": {"Filstroff", "Liu"},
    "gapmf.NegativeMultinomial": {"Filstroff"},
    "gapmf.datasets.paper_synthetic": {"Filstroff"},
    "gapmf.log_joint_likelihood": {"Filstroff"},
    "gapmf.log_marginal_likelihood": {
        *("Filstroff", "Doucet", "Chib", "Murray", "Andrieu", "Vehtari")
    },
    "gapmf.perplexity": {"Wallach"},
    "gapmf.posterior_activations": {"Filstroff"},
    "gapmf.select_rank": {"Schwarz"},
}


def load(name: str) -> object:
    return Validator._load_obj(name)


def is_callable(name: str) -> bool:
    return inspect.isfunction(load(name)) or inspect.ismethod(load(name))


def _members(name: str) -> list[str]:
    """Public methods and properties of a class, those of its bases in gapmf included."""
    found = []
    for attribute, value in inspect.getmembers_static(load(name)):
        function = getattr(value, "func", getattr(value, "fget", value))
        function = getattr(function, "__func__", function)
        ours = (getattr(function, "__module__", None) or "").startswith("gapmf")
        described = inspect.isroutine(value) or isinstance(value, (property, cached_property))
        if ours and described and not attribute.startswith("_"):
            found.append(f"{name}.{attribute}")
    return found


def _public() -> tuple[list[str], list[str]]:
    """Public classes and functions; errors, whose summary is enough, are not among them."""
    names = [f"gapmf.{name}" for name in gapmf._EXPORTS]
    names += [
        f"gapmf.datasets.{name}"
        for name, value in vars(datasets).items()
        if inspect.isfunction(value) and value.__module__ == datasets.__name__ and name[0] != "_"
    ]
    names += [f"gapmf.plot.{name}" for name in plot.__all__]
    classes = [name for name in names if inspect.isclass(load(name))]
    return classes, [name for name in names if name not in classes]


CLASSES, FUNCTIONS = _public()
MEMBERS = [member for name in {*CLASSES, *RESULTS} for member in _members(name)]
OBJECTS = sorted({*CLASSES, *RESULTS, *FUNCTIONS, *MEMBERS})


def _fields(name: str) -> list[str]:
    """The fields of a named tuple or a dataclass."""
    cls = load(name)
    return [*getattr(cls, "_fields", getattr(cls, "__dataclass_fields__", ()))]


def _faults(name: str) -> list[str]:
    value, found = load(name), validate(name)
    docs = Validator(get_doc_object(value))
    is_result = name in RESULTS
    codes = CODES - SIGNATURE if is_result else CODES
    faults = [f"{code}: {text}" for code, text in found["errors"] if code in codes]
    sections = {section for section in docs.doc._parsed_data if docs.doc[section]}
    if is_result:
        attributes = docs.doc["Attributes"]
        fields = [field for names, _, _ in attributes for field in names.split(", ")]
        if fields != _fields(name):
            faults.append(f"Attributes are {fields}, not {_fields(name)}")
        faults += [f"{a.name} has no type" for a in attributes if not a.type]
        faults += [f"{a.name} has no description" for a in attributes if not a.desc]
    related = name in {*FUNCTIONS, *CLASSES} or name.startswith("gapmf.GammaPoissonMF.")
    if related and not is_result and "See Also" not in sections:
        faults.append("no See Also")
    if (is_callable(name) or name in CLASSES) and "Examples" not in sections:
        faults.append("no Examples")
    if is_callable(name) and docs.summary.split(" ")[0] not in VERBS:
        faults.append(f"the summary starts with {docs.summary.split(' ')[0]!r}, which is no verb")
    if is_callable(name) or name in CLASSES:
        faults += _undeclared_defaults(value, docs)
    references = " ".join(docs.doc["References"])
    faults += [f"{who} is not cited" for who in CITED.get(name, ()) if who not in references]
    cited = set(re.findall(r"\[(\d+)\]_", docs.raw_doc))
    listed = set(re.findall(r"\.\. \[(\d+)\]", references))
    if cited != listed:
        faults.append(f"references {sorted(listed)} are listed, {sorted(cited)} cited")
    return faults


def _undeclared_defaults(value: object, docs: Validator) -> list[str]:
    """Parameters with a default value whose type says neither `default=` nor `optional`."""
    types = {
        name: type_
        for names, type_, _ in docs.doc["Parameters"]
        for name in names.replace("*", "").split(", ")
    }
    return [
        f"the default of {name} is not stated"
        for name, parameter in inspect.signature(value).parameters.items()
        if parameter.default is not inspect.Parameter.empty
        and not re.search(r"default=|optional", types.get(name, ""))
    ]


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring(name):
    faults = _faults(name)
    assert not faults


@pytest.mark.parametrize("name", sorted(n for n in vars(errors) if n.endswith("Error")))
def test_errors_have_a_summary(name):
    summary = inspect.getdoc(getattr(errors, name)).splitlines()[0]
    assert summary.endswith(".")


def test_nothing_that_is_returned_is_left_out():
    """Every class of gapmf in a public return annotation is among the objects."""
    listed = {load(name) for name in {*CLASSES, *RESULTS}}
    for name in OBJECTS:
        if not is_callable(name):
            continue
        function = inspect.unwrap(load(name))
        scope = vars(import_module(function.__module__))
        for word in re.findall(r"\w+", str(function.__annotations__.get("return", ""))):
            value = scope.get(word)
            if inspect.isclass(value) and value.__module__.startswith("gapmf"):
                assert value in listed, f"{name} returns {word}"


def test_the_lists_name_what_exists():
    assert {*CITED} <= {*OBJECTS}


GOOD = """Return twice a number.

    Parameters
    ----------
    x : float, default=1.0
        The number.

    Returns
    -------
    float
        Its double.

    See Also
    --------
    sum : Add numbers.

    Examples
    --------
    >>> 2
    2
    """


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Return twice", "The double of", "no verb"),
        (" a number.", " a number", "SS03"),
        ("x : float, default=1.0", "y : float, default=1.0", "PR01"),
        (", default=1.0", "", "the default of x"),
        ("x : float, default=1.0", "x :", "PR04"),
        ("Returns\n    -------\n    float\n        Its double.\n\n    ", "", "RT01"),
        ("See Also\n    --------\n    sum : Add numbers.\n\n    ", "", "no See Also"),
        ("Examples\n    --------\n    >>> 2\n    2\n", "", "no Examples"),
    ],
)
def test_a_lost_section_is_noticed(old, new, fault, monkeypatch):
    def double(x=1.0):
        return 2 * x

    name = f"{__name__}.double"
    monkeypatch.setitem(globals(), "double", double)
    monkeypatch.setattr(f"{__name__}.FUNCTIONS", [name])
    double.__doc__ = GOOD
    assert not _faults(name)
    assert old in GOOD
    double.__doc__ = GOOD.replace(old, new)
    assert any(fault in found for found in _faults(name))
