"""Imports point down the layers of the package, and `import gapmf` imports next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import gapmf

ROOT = Path(gapmf.__file__).parent

# From the bottom up. A module may import from its own layer and from those below.
LAYERS = [
    {"types", "errors", "validation"},
    {"counts", "csr", "parallel", "distributions", "model", "observation", "storage", "io"},
    {"kernels"},
    {"engines", "likelihood"},
    {"em"},
    {"ranks", "analysis"},
    {"estimator", "persistence", "progress"},
    {"cli", "reproduce", "selection", "single_cell", "datasets", "plot", "report"},
]
KERNELS_MAY_IMPORT = {
    "numpy", "numba", "llvmlite", "math", "typing", "hashlib", "pathlib", "__future__",
    "gapmf.kernels",
}  # fmt: skip


def _modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield parts, path


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import absolutely, the layers are then visible"
            if [alias.name for alias in node.names] == ["__version__"]:
                continue  # a constant of the package, which any layer may name
            yield node.module
            if node.module == "gapmf":
                yield from (f"gapmf.{alias.name}" for alias in node.names)


def _layer(name):
    for height, names in enumerate(LAYERS):
        if name in names:
            return height
    raise AssertionError(f"gapmf.{name} has no layer: give it one in this test")


def test_imports_point_down():
    public = gapmf._EXPORTS
    for parts, path in _modules():
        if parts == ("__init__",):
            continue
        height = _layer(parts[0])
        for name in _imported(path):
            # For gapmf.__version__, at the top only.
            assert name != "gapmf" or parts[0] in ("cli", "estimator"), f"{path}: import a module"
            leaf = name.removeprefix("gapmf.")
            if name.startswith("gapmf.") and leaf != "__version__":
                target = public.get(leaf, name).split(".")[1]
                assert _layer(target) <= height, f"{path.name} imports {name}, above it"


def test_there_are_no_import_cycles():
    """Imports when a module is loaded form no cycle; `engines` and `likelihood` are independent."""
    known = {".".join(("gapmf", *parts)).removesuffix(".__init__") for parts, _ in _modules()}
    graph = {}
    for parts, path in _modules():
        name = ".".join(("gapmf", *parts)).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = set()
        for node in tree.body:  # not those within functions or for type checkers only
            if isinstance(node, ast.ImportFrom) and node.module.startswith("gapmf"):
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & known
                targets |= inner or {node.module}
        graph[name] = targets & known - {"gapmf", name}
    list(TopologicalSorter(graph).static_order())  # raises CycleError
    for package, other in (("engines", "likelihood"), ("likelihood", "engines")):
        for name, targets in graph.items():
            if name.startswith(f"gapmf.{package}"):
                assert not any(to.startswith(f"gapmf.{other}") for to in targets), name


def test_a_newcomer_finds_a_file_by_its_name():
    """No file name stands twice, and the top level holds only what users import or all need."""
    names = [parts[-1] for parts, _ in _modules() if parts[-1] != "__init__"]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
    assert sum(len(parts) == 1 for parts, _ in _modules()) <= 16
    assert len(LAYERS) <= 8


def test_kernels_are_numba_only():
    for parts, path in _modules():
        if parts[0] == "kernels":
            for name in _imported(path):
                allowed = any(name == ok or name.startswith(f"{ok}.") for ok in KERNELS_MAY_IMPORT)
                assert allowed, f"{path.name} imports {name}"


def _loaded_after(code):
    script = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_import_is_lazy():
    loaded = _loaded_after("import gapmf; gapmf.__version__; dir(gapmf)")
    assert not loaded & {"numpy", "scipy", "numba", "typer", "rich", "joblib"}
    loaded = _loaded_after("import gapmf; gapmf.GaP([[1.0]])")
    assert "numpy" in loaded
    assert not loaded & {"numba", "scipy", "typer", "gapmf.likelihood"}


def test_command_line_help_is_light():
    loaded = _loaded_after("import gapmf.cli")
    assert not loaded & {"numpy", "scipy", "numba", "sklearn"}


def test_public_names():
    assert sorted(gapmf.__all__) == sorted([*gapmf._EXPORTS, *gapmf._SUBMODULES, "__version__"])
    for name in gapmf.__all__:
        assert getattr(gapmf, name) is not None
    assert not hasattr(gapmf, "nonsense")
    assert (ROOT / "py.typed").exists()
