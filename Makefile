# On a fresh machine: `make demo` shows it, `make check` checks a change in two minutes, `make test` checks everything.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# pytest-xdist workers: one more than the cores of a small CI machine, because tests also wait for processes and sockets.
JOBS   ?= 3
# Idle workers take tests from busy ones, so that no long test runs alone at the end.
PYTEST := $(BIN)/python -m tests.run -n $(JOBS) --dist worksteal
# Agent frameworks with an adapter, each with an extra, a lock file and a virtual environment of its own; then clients
# that are only served, in two environments because their dependencies conflict.
FRAMEWORKS := openai-agents langgraph pydantic-ai claude-sdk agent-framework strands adk llama-index
CLIENTS := clients crewai
# Frameworks whose models have another lane, or no conversation over the transport: docs/adapters/README.md.
STORES_ONLY := langgraph claude-sdk
ADAPTERS := $(FRAMEWORKS) $(CLIENTS)
# Folders whose tests start few processes and servers.
QUICK  := $(addprefix tests/,core config golden house models public rescue runtime testing)

.PHONY: help demo run check test quick lint types unit crashlab attack bench adapters compare docs coefficients site screenshots release-check lock clean

help:
	@echo 'make demo        show a session that survives everything, with a simulated model'
	@echo 'make run         start the gateway'
	@echo 'make check       lint, types and the quick tests: two minutes on two cores'
	@echo 'make test        lint, types, all tests and coverage: ten minutes on two cores'
	@echo 'make crashlab    kills, power losses and flipped bits, in a short form'
	@echo 'make attack      attack a gateway, and report what did not hold'
	@echo 'make bench       measure speed in a short form, and print it'
	@echo 'make adapters    suites of agent frameworks over their adapters; adapters/NAME runs one'
	@echo 'make compare     measure Holdfast beside the stores of agent frameworks; COMPARE=--long, --quick, --write'
	@echo 'make docs        rewrite the generated parts of docs/'
	@echo 'make site        build the documentation as a site in site/'
	@echo 'make coefficients  fit the classifier of errors to the labelled rows (CORPUS=… adds recorded ones)'
	@echo 'make screenshots take the pictures in docs/images'
	@echo 'make release-check  build and check the archives of a release; REPOSITORY=URL makes links absolute'
	@echo 'make lock        rewrite the lock files (needs uv)'

demo: $(VENV)/run.stamp
	@$(BIN)/holdfast demo

# The gateway, with the simulated model unless holdfast.toml or the environment says otherwise.
run: $(VENV)/run.stamp
	@$(BIN)/holdfast serve

# Run this before every commit. Types are checked beside the tests, because mypy uses one core.
check: lint
	@$(MAKE) --no-print-directory -j2 types quick

test: lint
	@$(MAKE) --no-print-directory -j2 types unit

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples

types: $(VENV)/dev.stamp
	$(BIN)/mypy

quick: $(VENV)/dev.stamp
	$(PYTEST) -q $(QUICK)

# All tests. HOLDFAST_EXAMPLES=1000 lets property tests search longer; the default is 50 examples.
unit: $(VENV)/dev.stamp
	$(PYTEST)

# The slow checks in their short form; docs/crashlab.md has the long one.
crashlab: $(VENV)/run.stamp
	@$(BIN)/holdfast crashlab --kills 500
	@$(BIN)/holdfast crashlab --power-loss --states 500
	@$(BIN)/holdfast crashlab --flips 300

# A gateway under attack, on SQLite and on a PostgreSQL server of its own; docs/security.md has the long form.
attack: $(VENV)/dev.stamp
	@$(BIN)/holdfast attack
	@$(BIN)/holdfast attack --store postgres --only 'other tenants' --only 'hostile bodies' --only memory

# A short form of all benchmarks of speed. It prints; a figure below its floor does not fail it.
bench: $(VENV)/run.stamp
	@$(BIN)/holdfast bench all --quick

# Rewrite the generated parts of docs/ (diagrams, command help); a test fails when they are out of date.
docs: $(VENV)/dev.stamp
	$(BIN)/python -m tests.house.generate

# The documentation as a site, with an environment of its own. A dead link or a source on another host fails the build.
site: .venv-site/site.stamp
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --quiet
	@echo 'site/index.html'

.venv-site/site.stamp: requirements/site.txt
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/site.txt
	@touch $@

# Fit the coefficients of the fault classifier. Recorded errors beside the kept ones: `make coefficients CORPUS=FOLDER`.
coefficients: $(VENV)/dev.stamp
	$(BIN)/python -m holdfast.lab.fault_fitting tests/core/refusals.jsonl tests/core/fault_examples.jsonl $(CORPUS)

# Take the pictures in docs/images, by tests in a real Chromium.
screenshots: $(VENV)/dev.stamp
	HOLDFAST_SCREENSHOTS=docs/images $(BIN)/python -m tests.run tests/page/test_screenshots.py

# Build and check what a release uploads: wheel, sdist, an install in an empty environment, a bill of materials.
release-check: $(VENV)/dev.stamp
	$(BIN)/python -m tests.release $(if $(REPOSITORY),--repository $(REPOSITORY))

# The suites of agent frameworks over their adapters: `make adapters`, or one with `make adapters/langgraph`. An install
# that fails fails the lane.
adapters: $(addprefix adapters/,$(ADAPTERS))
# Installed once, not per run.
.PRECIOUS: .venv-adapters/%.stamp

adapters/%: .venv-adapters/%.stamp
	ADAPTER_LANE=$* .venv-adapters/$*/bin/python -m pytest -q --noconftest -o filterwarnings= -m adapter $(wildcard tests/adapters/test_$(subst -,_,$*).py) $(if $(filter $*,$(STORES_ONLY)),,tests/adapters/test_frameworks.py)

# Costs of the adapters beside the frameworks' own stores.
bench/adapters: $(addprefix bench/adapters/,$(filter-out claude-sdk,$(FRAMEWORKS)))
bench/adapters/%: .venv-adapters/%.stamp
	@.venv-adapters/$*/bin/holdfast bench adapters

# Stores and conversations of agent frameworks, alone and with Holdfast, in one run: half an hour.
compare: $(VENV)/dev.stamp $(ADAPTERS:%=.venv-adapters/%.stamp)
	$(BIN)/python -m tests.compare $(COMPARE)

.venv-adapters/%.stamp: requirements/adapters-%.txt requirements/build.txt pyproject.toml
	$(PYTHON) -m venv .venv-adapters/$*
	.venv-adapters/$*/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/adapters-$*.txt -r requirements/build.txt
	PATH="$(CURDIR)/.venv-adapters/$*/bin:$$PATH" .venv-adapters/$*/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "holdfast needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

# The lock files are complete, so nothing is resolved: a newer release of a dependency with extras would break the install.
$(VENV)/run.stamp: requirements/run.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/run.txt -r requirements/build.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/run.stamp

# Rewrites the lock files from pyproject.toml. Needs uv; hashes are kept, addresses are not.
lock:
	uv pip compile pyproject.toml $(LOCK) -o requirements/run.txt
	uv pip compile pyproject.toml $(addprefix --extra ,images mcp postgres s3 traces) --group dev $(LOCK) -o requirements/dev.txt
	uv pip compile pyproject.toml $(addprefix --extra ,images mcp postgres s3 traces) $(LOCK) -o requirements/image.txt
	echo 'uv-build>=0.13,<0.14' | uv pip compile - $(LOCK) -o requirements/build.txt
	uv pip compile requirements/site.in $(LOCK) -o requirements/site.txt
	$(foreach name,$(ADAPTERS),uv pip compile pyproject.toml requirements/adapters-$(name).in $(addprefix --extra ,$(filter $(name),$(FRAMEWORKS))) $(LOCK) -o requirements/adapters-$(name).txt;)
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

clean:
	rm -rf $(VENV) .venv-adapters .venv-site site dist .mypy_cache .ruff_cache .hypothesis
