# Two commands for everybody: `make demo` and `make test`. Each makes .venv when it is not there.
# PYTHON chooses the interpreter, for example: make test PYTHON=python3.12

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3 python,$(if $(shell command -v $(p) 2>/dev/null),$(p))))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venv-bench

# Tests run in as many processes as there are cores, file by file, in the order of tests/conftest.py;
# TESTS chooses some of them. Each process has a core, so the threads of BLAS would only get in its way.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
TESTS ?= tests
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
# Every process of every run would compile all tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast check docs bench bench-quick format clean

demo: $(READY)
	@$(BIN)/gapmf demo

test: $(READY)
	$(PYTEST) $(TESTS)

# The inner loop: all but the statistical and other long tests, in a minute once kernels are compiled.
test-fast: $(READY)
	$(PYTEST) -m "not slow" $(TESTS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

# The site, in docs/_build/html. Warnings are errors; nothing is fetched. GAPMF_GALLERY=0 leaves the scripts of the gallery out.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -b html -n -W --keep-going docs docs/_build/html
	@echo "Open docs/_build/html/index.html in a browser."

# gapmf beside other packages: docs/comparison.md, which says how long it is estimated to take. It goes on where it stopped, in
# bench-results/. NIPS is read from GAPMF_NIPS_DIR. bench-quick tries everything on tiny data, and leaves docs/ alone.
bench: $(BENCH)/.ready
	PYTHONPATH=benchmarks $(BENCH)/bin/python -m peers.runner bench-results
	PYTHONPATH=benchmarks $(BENCH)/bin/python -m peers.summary bench-results docs/comparison/results.json
	$(BENCH)/bin/python docs/generate_comparison.py --pictures

bench-quick: $(BENCH)/.ready
	PYTHONPATH=benchmarks $(BENCH)/bin/python -m peers.runner bench-results/quick --quick
	PYTHONPATH=benchmarks $(BENCH)/bin/python -m peers.summary bench-results/quick bench-results/quick.json --quick
	$(BENCH)/bin/python docs/generate_comparison.py --results bench-results/quick.json --page bench-results/quick.md --pictures
	@echo "The page of the quick form: bench-results/quick.md"

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(BENCH) docs/_build docs/_gallery docs/reference/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last: an install that was cut short starts again.
# PIP_CONSTRAINT (not -c) also pins what builds the package.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gapmf needs Python 3.11 or newer, and '$(PYTHON)' is not: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making $(VENV) (once; a minute or two)"
	$(PYTHON) -m venv --clear $(VENV)
	PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $@

# What the site needs besides: installed when it is first built.
$(VENV)/.docs: $(READY)
	PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet -e '.[docs]'
	@touch $@

# Other packages have an environment of their own, so that they cannot change ours. One that does not install is a reason on the page.
$(BENCH)/.ready: pyproject.toml constraints.txt benchmarks/constraints.txt
	@echo "Making $(BENCH) (once; a few minutes: two packages are compiled)"
	$(PYTHON) -m venv --clear $(BENCH)
	PIP_CONSTRAINT="constraints.txt benchmarks/constraints.txt" PIP_DISABLE_PIP_VERSION_CHECK=1 $(BENCH)/bin/python -m pip install --quiet -e .
	@for package in tomotopy gensim hpfrec poismf cnmf matplotlib; do \
		PIP_CONSTRAINT="constraints.txt benchmarks/constraints.txt" PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BENCH)/bin/python -m pip install --quiet $$package || echo "$$package does not install here: the page will say so" >&2; \
	done
	@touch $@
