"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from gapmf.errors import InvalidInputError

_DATA = (
    "Counts, samples × features: UCI docword.NAME.txt, MatrixMarket .mtx, SciPy .npz, .csv, .tsv, "
    ".parquet, .h5ad, a .txt with one document per line, or a folder of .txt files, of 10x files "
    "or of shards. Files of the kinds docword, .mtx, .csv, .tsv and .txt may be gzipped."
)
_WEIGHT = (
    "Weight, at least 0 and less than 1, of the overall feature frequencies that are mixed into "
    "each component when samples are {}."
)
_SCORED = (
    "In scores, this gives a small probability to a feature without counts in the fit. With 0, a "
    "sample with such a feature has likelihood 0."
)
SMOOTHING = f"{_WEIGHT.format('scored or transformed')} {_SCORED}"
_GROUPS = (
    "Groups: a column of the obs of an .h5ad, a text file with one group per line and no header, "
    "or a .csv or .tsv with a header row and two columns, the names of samples and their groups."
)
_FORMATS = "uci, mtx, npz, csv, tsv, parquet, h5ad, text or shards"

Data = Annotated[Path, Argument(metavar="DATA", help=_DATA)]
Model = Annotated[Path, Argument(metavar="MODEL", help="Model file written by `gapmf fit`.")]
Jobs = Annotated[int, Option(help="Number of threads; -1 uses all cores.")]
Seed = Annotated[int, Option(help="Random seed.", min=0, metavar="N")]
Algorithm = Annotated[
    str,
    Option(
        help="Algorithm: mcem-c, mcem-h or mcem-ch; for few components em-c, em-ch or exact; vbem "
        "or mjle, which do not maximise the marginal likelihood."
    ),
]
LearnAlpha = Annotated[bool, Option("--learn-alpha", help="Learn one alpha per component.")]
PseudoCount = Annotated[
    str,
    Option(
        metavar="NUMBER|auto",
        help="Pseudo-count of every feature in every component: a prior that keeps small "
        "components from overfitting. auto chooses it from the data.",
    ),
]
Schedule = Annotated[
    str,
    Option(
        help="Schedule of Monte Carlo fits: adaptive; posterior, which predicts new samples best "
        "and needs --pseudo-count; saem, saem-textbook, online or paper."
    ),
]
Tol = Annotated[
    float,
    Option(help="Tolerance of the stopping rule. Smaller values give longer, more exact fits."),
]
Alpha = Annotated[float, Option(help="Shape of the Gamma prior of activations.")]
Components = Annotated[
    int, Option("--components", "-k", help="Number of components.", min=1, metavar="N")
]
Quick = Annotated[bool, Option("--quick", help="Use less data and fewer iterations.")]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Output = Annotated[
    Path | None,
    Option("--output", "-o", help="Write a table to this .csv, .tsv, .json or .parquet."),
]
EXPOSURE = (
    "Exposure of each sample, such as sequencing depth or hours: total (its total count, divided "
    "by the mean total count of the samples of the fit), a file with one number per line, or the "
    "name of a column (of obs for .h5ad, otherwise of the table). The column is not used as a "
    "feature."
)
Exposure = Annotated[
    str | None,
    Option(
        metavar="EXPOSURE",
        help=f"{EXPOSURE} Default: total if the fit had total; 1 if the fit had none; otherwise "
        "required.",
    ),
]
PictureOrTable = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        help="Write a picture to this .png, .svg or .pdf, or a table to this .csv, .tsv, .json or "
        ".parquet.",
    ),
]
Precision = Annotated[
    float,
    Option(
        help="Target for the Monte Carlo error of a sample's activations (2.2 standard errors), "
        "relative to their Euclidean norm. Each Gibbs chain makes at most 1/PRECISION² sweeps "
        "(this limit is at least 64 and at most 4096), so the target may be missed."
    ),
]
Test = Annotated[
    Path | None,
    Option("--test", metavar="DATA", help="Held-out samples that decide, instead of --criterion."),
]


def _frequency(text: str) -> float:
    """Return a whole number as it is, and one with a decimal point as a share."""
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a number of samples, for example 5, or a share, for example 0.5"
        ) from None


# For commands that fit. The others match the features of data to those of the model by name.
StopWords = Annotated[
    str | None, Option(help='Features to leave out: "english", or a file with one word per line.')
]
MinDf = Annotated[
    float | None,
    Option(
        parser=_frequency,
        metavar="NUMBER",
        help="Leave out features that occur in fewer samples than this: a number (5), or a share "
        "(0.01).",
    ),
]
MaxDf = Annotated[
    float | None,
    Option(
        parser=_frequency,
        metavar="NUMBER",
        help="Leave out features that occur in more samples than this: a number (500), or a share "
        "(0.5).",
    ),
]

Criterion = Annotated[
    str,
    Option(
        help="What decides without --test: prediction (of a random fifth of the counts, held out) "
        "or bic."
    ),
]

_READING = functools.partial(Option, rich_help_panel="How DATA is read")
_READ_OPTIONS: dict[str, Any] = {
    "vocab": Annotated[
        Path | None,
        _READING(help="File with one feature name per line; for text, the words to count."),
    ],
    "format": Annotated[
        str | None, _READING(help=f"Format of the file, if its name does not show it: {_FORMATS}.")
    ],
    "layer": Annotated[
        str | None,
        _READING(help='Layer of an .h5ad file that holds the raw counts; "raw" reads adata.raw.'),
    ],
    "transpose": Annotated[
        bool | None, _READING("--transpose/--no-transpose", help="The file is features × samples.")
    ],
    "layout": Annotated[
        str | None, _READING(help="Layout of a table: dense, or triplets (sample, feature, count).")
    ],
    "header": Annotated[
        bool | None, _READING("--header/--no-header", help="The first row of a table holds names.")
    ],
    "sample_names": Annotated[
        bool | None,
        _READING(
            "--sample-names/--no-sample-names", help="The first column of a table holds names."
        ),
    ],
    "delimiter": Annotated[
        str | None, _READING(help="Column separator of a table, for example ';'.")
    ],
    "encoding": Annotated[str | None, _READING(help="Encoding of text; default: UTF-8.")],
}


def echo(message: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"gapmf: {' '.join(message.split())}", err=True)


# Parameters of Python that are options of commands. The first ones also occur as plain words.
_PLAIN = ["algorithm", "alpha", "beta", "criterion", "exposure", "precision", "schedule"]
_PLAIN += ["smoothing", "tol"]
_PARAMETERS = {name: name for name in (*_PLAIN, "learn_alpha", "max_iter", "pseudo_count")}
_PARAMETERS |= {name: name for name in (*_READ_OPTIONS, "stop_words", "min_df", "max_df")}
_PARAMETERS |= {"n_components": "components", "n_jobs": "jobs", "random_state": "seed"}
_ANY = "|".join(_PARAMETERS)
_UNMISTAKABLE = "|".join(name for name in _PARAMETERS if "_" in name)
_BEFORE, _AFTER = r"(?<![\w./\\-])(?<!\w\()", r"(?![\w/\\-]|\.\w)"
_SPELLINGS = (
    (r"the option `header`, true for names or false", "--header for names, or --no-header"),
    (r"\bmax_iter or tol\b", "--max-iter or --tol"),
    (_BEFORE + r"learn_alpha=False" + _AFTER, "no --learn-alpha"),
    (_BEFORE + r"learn_alpha=True" + _AFTER, "--learn-alpha"),
    (_BEFORE + rf"({_ANY})=(?:'([^']*)'|\"([^\"]*)\"|(\d[\w.-]*\w|[\w…]+))", None),
    (rf"`({_ANY})`", None),
    (_BEFORE + rf"({_UNMISTAKABLE})" + _AFTER, None),
    (rf"^({'|'.join(_PLAIN)})(?= (?:must|is)\b)", None),
)


def as_options(message: str) -> str:
    """Spell the parameters of Python in a message as options of the command line.

    >>> as_options("pseudo_count is 0: use pseudo_count='auto', or set the option `layout`")
    '--pseudo-count is 0: use --pseudo-count auto, or set the option --layout'
    """

    def option(found: re.Match[str]) -> str:
        name, *values = found.groups()
        value = "".join(f" {value}" for value in values if value is not None)
        return f"--{_PARAMETERS[name].replace('_', '-')}{value}"

    for pattern, spelling in _SPELLINGS:
        message = re.sub(pattern, option if spelling is None else spelling, message)
    return message


@dataclass(frozen=True)
class Request:
    """The arguments of the commands that take a model and data."""

    model: Model
    data: Data
    reading: dict[str, Any]
    output: Output = None
    jobs: Jobs = -1
    json: Json = False


@dataclass(frozen=True)
class ScoreRequest(Request):
    """The arguments of `gapmf score`."""

    smoothing: Annotated[
        float | None, Option(help=f"{_WEIGHT.format('scored')} {_SCORED} Default: that of the fit.")
    ] = None
    exposure: Exposure = None
    precision: Annotated[
        float,
        Option(
            help="Target for the standard error of the total, in nats per token (unit of count). "
            "It may not be reached, for example with only a few short samples."
        ),
    ] = 1e-4


@dataclass(frozen=True)
class TransformRequest(Request):
    """The arguments of `gapmf transform`."""

    smoothing: Annotated[
        float | None,
        Option(
            help=f"{_WEIGHT.format('transformed')} Features whose weight is 0 in all components "
            "of the model are ignored, whatever this value is. Default: that of the fit."
        ),
    ] = None
    exposure: Exposure = None
    precision: Precision = 0.05
    activations: Annotated[
        bool, Option("--activations", help="Write activations instead of proportions.")
    ] = False


@dataclass(frozen=True)
class RecommendRequest(Request):
    """The arguments of `gapmf recommend`."""

    n: Annotated[int, Option("-n", help="Number of features per sample.", min=1, metavar="N")] = 10
    include_seen: Annotated[
        bool,
        Option("--include-seen", help="Also recommend features that have counts in the sample."),
    ] = False
    exposure: Exposure = None
    precision: Precision = 0.05


@dataclass(frozen=True)
class CheckRequest(Request):
    """The arguments of `gapmf check`."""

    exposure: Exposure = None
    output: PictureOrTable = None
    seed: Annotated[
        int | None, Option(help="Random seed. Default: that of the fit.", min=0, metavar="N")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Request):
    """The arguments of `gapmf compare`."""

    groups: Annotated[str, Option(metavar="COLUMN|FILE", help=_GROUPS)]
    level: Annotated[float, Option(help="Level of the intervals.")] = 0.95
    exposure: Exposure = None
    output: PictureOrTable = None


@dataclass(frozen=True)
class RankRequest(Request):
    """The arguments of `gapmf rank`."""

    test: Test = None
    criterion: Criterion = "prediction"


@dataclass(frozen=True)
class ReportRequest:
    """The arguments of `gapmf report`."""

    model: Model
    output: Annotated[Path, Option("--output", "-o", help="Write the report to this .html file.")]
    reading: dict[str, Any]
    data: Annotated[
        Path | None,
        Option("--data", metavar="DATA", help=f"{_DATA} As a rule, those that were fitted."),
    ] = None
    groups: Annotated[str | None, Option(metavar="COLUMN|FILE", help=_GROUPS)] = None
    image: Annotated[
        str | None,
        Option(
            metavar="HxW",
            help="The features are the pixels of images, row by row: height and width, for "
            "example 28x28, or square.",
        ),
    ] = None
    exposure: Exposure = None
    rank: Annotated[
        bool, Option("--rank", help="Add the rank report, which may take longer than the fit.")
    ] = False
    title: Annotated[str | None, Option(help="Title of the report.")] = None
    jobs: Jobs = -1


def with_request(command: Callable[[Any], None]) -> Callable[..., None]:
    """Give a command the arguments of the `Request` that it takes, and call it with one."""
    kind = inspect.signature(command, eval_str=True).parameters["request"].annotation

    @functools.wraps(command)
    def call(**given: Any) -> None:
        command(kind(**given))

    call.__dict__["__signature__"] = inspect.signature(kind, eval_str=True)
    return with_read_options(call)


def with_read_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `gapmf.read`, and call it with their values as `reading`."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.name != "reading"]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _READ_OPTIONS.items()
    ]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        reading = {name: given.pop(name) for name in _READ_OPTIONS}
        command(**given, reading=reading)

    call.__dict__["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def parse_pseudo_count(text: str) -> float | str:
    """Return a number, or "auto".

    >>> parse_pseudo_count("0.1"), parse_pseudo_count("auto")
    (0.1, 'auto')
    """
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(
            f"--pseudo-count must be a number, such as 0.1, or auto, but is {text!r}"
        ) from None
