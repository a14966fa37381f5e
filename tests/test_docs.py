"""What the documents say is true: the map of equations, the README, the examples."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

import gapmf
from gapmf.cli import app

PROJECT = Path(__file__).parent.parent
LAST_EQUATION = 51


def _rows():
    """The rows of the map: equation numbers, function, test, and what is said of it."""
    for line in (PROJECT / "docs" / "equations.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and re.match(r"\d", cells[0]):
            first, _, last = cells[0].partition("–")
            yield range(int(first), int(last or first) + 1), *cells[1:]


def _find(dotted):
    parts = dotted.split(".")
    for split in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for name in parts[split:]:
            value = inspect.getattr_static(value, name)
        return value
    raise AssertionError(f"no module in {dotted}")


def test_every_equation_has_a_row():
    listed = [number for row in _rows() for number in row[0]]
    assert sorted(set(listed)) == list(range(1, LAST_EQUATION + 1))


def test_the_map_of_equations_is_true():
    here, named = 0, {}
    for numbers, _, function, test in _rows():
        if not function.startswith("`"):
            assert function in ("not implemented yet", "definition only"), numbers
            continue
        for dotted in re.findall(r"`([^`]+)`", function):
            value = _find(f"gapmf.{dotted}")
            if hasattr(value, "func"):  # cached_property
                value = value.func
            assert inspect.getdoc(value), dotted
            first_line = inspect.getdoc(value).splitlines()[0]
            cited = {
                int(n) for n in re.findall(r"\d+", " ".join(re.findall(r"Eqs?\..*", first_line)))
            }
            for low, high in re.findall(r"(\d+) to (\d+)", first_line):
                cited |= set(range(int(low), int(high) + 1))
            assert cited, f"{dotted} names no equation"
            named.setdefault(dotted, (cited, set()))[1].update(numbers)
        for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", test):
            source = (PROJECT / "tests" / path).read_text(encoding="utf-8")
            assert f"def {name}(" in source, f"{path} has no {name}"
            here += 1
    assert here > 20
    differ = {name: both for name, both in named.items() if both[0] != both[1]}
    assert not differ, "(cited by the docstring, listed by the map)"


def test_the_rivals_are_where_the_map_says():
    text = (PROJECT / "docs" / "equations.md").read_text(encoding="utf-8")
    lines = text.split("## Beyond the paper: its rivals")[1].splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ") and "`" in line]
    rows = [row for row in rows if row[0] != "| what it says"]  # heads of tables
    assert len(rows) >= 6
    for _, function, test in rows:
        for dotted in re.findall(r"`([^`]+)`", function):
            assert inspect.getdoc(_find(f"gapmf.{dotted}")), dotted
        for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", test):
            source = (PROJECT / "tests" / path).read_text(encoding="utf-8")
            assert f"def {name}(" in source, f"{path} has no {name}"


def _definitions(tree):
    """Every function and class of a module with its nodes; the rest of it under the name ""."""
    inner = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    yield from ((n.name, n) for n in inner)
    outside = [n for n in tree.body if not isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    imports = (ast.Import, ast.ImportFrom)
    yield "", ast.Module([n for n in outside if not isinstance(n, imports)], [])


def _names_in(node):
    """The names that code uses: not those that it defines or imports."""
    used = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            used.add(part.id)
        elif isinstance(part, ast.Attribute):
            used.add(part.attr)
    return used


def _reached():
    """The names that are used by what users call: by public names, commands, and what these use.

    Names stand for all functions that have them, so this may find too many, never too few.
    """
    uses = {}
    for path in (PROJECT / "src").rglob("*.py"):
        for name, node in _definitions(ast.parse(path.read_text(encoding="utf-8"))):
            uses.setdefault(name, set()).update(_names_in(node))
            if isinstance(node, ast.ClassDef):  # a class that is used has methods that are called
                methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
                uses[name] |= {m for m in methods if not m.startswith("_") or m.startswith("__")}
    commands = {"run", "app"}
    reached, waiting = set(), {"", *gapmf._EXPORTS, *commands}
    while waiting:
        reached |= waiting
        waiting = set().union(*(uses.get(name, set()) for name in waiting)) - reached
    return reached


def test_the_map_of_equations_names_what_the_package_calls():
    """A function that only tests call does not compute anything for anybody."""
    reached = _reached()
    dotted = [d for row in _rows() for d in re.findall(r"`([^`]+)`", row[2])]
    assert len(dotted) > 40
    assert [d for d in dotted if d.rpartition(".")[2] not in reached] == []


def _readme():
    return (PROJECT / "README.md").read_text(encoding="utf-8")


PAGES = [
    "README.md",
    "docs/index.md",
    "docs/exposures.md",
    *(f"docs/guides/{page.name}" for page in sorted((PROJECT / "docs" / "guides").glob("*.md"))),
]
EXAMPLE = re.compile(
    r"(?:<!-- runs only if ([\w-]+) is installed -->\n+)?```python\n(.*?)```"
    r"(?:\n+prints\n+```text\n(.*?)```)?",
    re.S,
)
START_HERE = ["simulate", "fit", "report"]
COMMAND = re.compile(r"^gapmf (.+?)(?: +#.*)?$", re.M)


class Example(NamedTuple):
    """A block of Python in a page: the package that it needs, and what it prints, if shown."""

    package: str
    code: str
    shown: str


def _examples(page):
    found = EXAMPLE.findall((PROJECT / page).read_text(encoding="utf-8"))
    return [Example(*groups) for groups in found]


def _run(code, names):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, names)
    return out.getvalue()


@pytest.mark.parametrize("page", [page for page in PAGES if _examples(page)])
def test_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    """One after the other, as a reader would. What needs a package that is not here is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    if page == "docs/index.md":  # its Python goes on from its commands
        assert [command.split()[0] for command in _run_commands(page)] == START_HERE
        assert "<html" in (tmp_path / "counts.html").read_text(encoding="utf-8")
    names = {"__name__": "__main__"}
    for example in _examples(page):
        if not example.package:
            assert _run(example.code, names) == example.shown
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot:
        pyplot.close("all")


def _run_commands(page):
    """Run the commands of gapmf in the shell blocks of a page, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", (PROJECT / page).read_text(encoding="utf-8"), re.S)
    commands = COMMAND.findall("\n".join(blocks))
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, (command, done.output)
    return commands


def test_guides_have_examples():
    without = {page for page in PAGES if not _examples(page)}
    assert without == {"docs/guides/coming-from.md", "docs/guides/glossary.md"}
    optional = [e.package for page in PAGES for e in _examples(page) if e.package]
    assert optional == ["umap-learn"]


def test_commands_in_guides_exist():
    """Blocks that are not run name commands and options that there are."""
    group = typer.main.get_command(app)
    checked = 0
    for page in PAGES:
        text = (PROJECT / page).read_text(encoding="utf-8")
        for line in COMMAND.findall("\n".join(re.findall(r"```(?:text|sh)\n(.*?)```", text, re.S))):
            words = shlex.split(line)
            if words[0].startswith("-") or words[0] not in group.commands:
                assert page == "README.md" or words[0] in group.commands, (page, line)
                continue
            options = {
                o for p in group.commands[words[0]].params for o in (*p.opts, *p.secondary_opts)
            }
            assert {w for w in words if w.startswith("-")} <= options, (page, line)
            checked += 1
    assert checked > 15


def test_equations_are_linked_to_lines_of_code():
    """What the site links: every function and test in the tables of equations has a line."""
    sys.path.insert(0, str(PROJECT / "docs" / "_ext"))
    try:
        links = importlib.import_module("source_names")
    finally:
        sys.path.pop(0)
    pages = ("equations", "theory")
    text = [(PROJECT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in pages]
    each = [[n for n in re.findall(r"`([^`]+)`", page) if links.is_linked(n)] for page in text]
    assert len(each[0]) > 100
    assert len(each[1]) > 20
    for name in [*each[0], *each[1]]:
        place = links.find(name)
        assert place, name
        lines = (PROJECT / place.path).read_text(encoding="utf-8").splitlines()
        last = re.split(r"::|\.", name)[-1]
        assert last in lines[place.line - 1] or place.line == 1, name
    assert links.find("model.nothing") is None
    assert links.find("test_model.py::test_nothing") is None


def test_every_page_is_in_the_site():
    """Pages that no table of contents lists would be lost; Sphinx says so only when it runs."""
    docs = PROJECT / "docs"
    listed = {""}
    for index in (docs / "index.md", docs / "design" / "index.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", index.read_text(encoding="utf-8"), re.S):
            entries = [line for line in block.splitlines() if line and line[0] != ":"]
            listed |= {(index.parent / entry).relative_to(docs).as_posix() for entry in entries}
    pages = {
        page.relative_to(docs).with_suffix("").as_posix()
        for page in docs.rglob("*.md")
        if not page.relative_to(docs).parts[0].startswith("_")
    }
    assert pages - listed == {"index"}


def test_the_reference_lists_every_public_name():
    text = (PROJECT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.M))
    wanted = {*gapmf._EXPORTS, *(f"plot.{name}" for name in gapmf.plot.__all__)}
    assert wanted <= listed
    assert all(_find(f"gapmf.{name}") for name in listed - {*gapmf._EXPORTS})


def test_references_do_not_look_like_lists():
    """On one line, one that begins with an initial, "G. Schwarz", would be item G of a list."""
    sources = [path.read_text(encoding="utf-8") for path in (PROJECT / "src").rglob("*.py")]
    found = [re.findall(r"^ *\.\. \[\d\] [A-Z]\. .*\.$", text, re.M) for text in sources]
    assert [lines for lines in found if lines] == []


def test_the_readme_shows_the_two_commands_and_the_orientation():
    text = _readme()
    for words in ("make demo", "make test", "X is Vᵀ", "Not there yet"):
        assert words in text


def test_links_lead_to_files():
    pages = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    links = [
        page.parent / link
        for page in pages
        for link in re.findall(r"\]\(([^)#:\s]+)[)#]", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 20
    assert [str(link) for link in links if not link.exists()] == []


def test_versions_agree():
    citation = (PROJECT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {gapmf.__version__}\n" in citation
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {gapmf.__version__}" in changelog


def _pinned(path):
    lines = (PROJECT / path).read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in pins), pins
    return {re.sub(r"[-_.]+", "-", line.partition("==")[0].lower()) for line in pins}


def test_constraints_pin_every_dependency_without_addresses():
    names, for_bench = _pinned("constraints.txt"), _pinned("benchmarks/constraints.txt")
    assert not names & for_bench  # make bench uses both
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra, needs in project["project"]["optional-dependencies"].items():
        pinned = names | for_bench if extra == "bench" else names
        for need in (*wanted, *needs):
            if not need.startswith("gapmf["):
                assert re.split(r"[<>=\[;]", need)[0].lower() in pinned, need


MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(gapmf.__path__, "gapmf.")
    if not m.name.startswith("gapmf.kernels")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_public_names_and_methods_have_docstrings_with_examples():
    for name in gapmf._EXPORTS:
        value = getattr(gapmf, name)
        assert ">>>" in inspect.getdoc(value), name
        for method, function in (
            inspect.getmembers(value, callable) if inspect.isclass(value) else ()
        ):
            ours = (getattr(function, "__module__", None) or "").startswith("gapmf")
            if ours and not method.startswith("_"):
                assert ">>>" in inspect.getdoc(function), f"{name}.{method}"


def test_no_line_of_a_page_is_a_comment():
    """A line that begins with a per cent sign is not on the site."""
    pages = [page for page in (PROJECT / "docs").rglob("*.md") if "_build" not in page.parts]
    assert any(page.name == "comparison.md" for page in pages)
    for page in pages:
        lines = page.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.lstrip().startswith("%")], page.name
