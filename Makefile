# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# pytest-xdist workers; two fit any machine, CI included.
JOBS   ?= 2

.PHONY: demo run test lint types unit crashlab docs screenshots lock clean

demo: $(VENV)/run.stamp
	@$(BIN)/holdfast demo

# The gateway, with the simulated model unless holdfast.toml or the environment says otherwise.
run: $(VENV)/run.stamp
	@$(BIN)/holdfast serve

test: lint types unit

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples

types: $(VENV)/dev.stamp
	$(BIN)/mypy

unit: $(VENV)/dev.stamp
	$(BIN)/python -m tests.run -n $(JOBS)

# What is slow, in its short form; docs/crashlab.md has the long one.
crashlab: $(VENV)/run.stamp
	@$(BIN)/holdfast crashlab --kills 500
	@$(BIN)/holdfast crashlab --power-loss --states 500
	@$(BIN)/holdfast crashlab --flips 300

# What is generated into docs/ (diagrams, command help); a test says when it is out of date.
docs: $(VENV)/dev.stamp
	$(BIN)/python -m tests.house.generate

# The pictures in docs/images, taken by tests in a real Chromium.
screenshots: $(VENV)/dev.stamp
	HOLDFAST_SCREENSHOTS=docs/images $(BIN)/python -m tests.run tests/page/test_screenshots.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "holdfast needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/run.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt -r requirements/build.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/run.stamp

# Rewrites the lock files from pyproject.toml. Needs uv; hashes are kept, addresses are not.
lock:
	uv pip compile pyproject.toml $(LOCK) -o requirements/run.txt
	uv pip compile pyproject.toml --all-extras --group dev $(LOCK) -o requirements/dev.txt
	echo 'uv-build>=0.13,<0.14' | uv pip compile - $(LOCK) -o requirements/build.txt
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
