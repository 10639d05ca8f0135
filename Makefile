# Two commands do everything on a fresh machine with Python >= 3.11: `make test` and `make book`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
KERNEL := lae_core/pooling/_kernel.so
# Where there is a C compiler the kernel must build; elsewhere everything works without it, slower.
export LAE_KERNEL ?= $(if $(shell command -v $${CC:-cc}),required,off)

# The versions that the book is made with. CI also tries others: CONSTRAINTS=/dev/null TORCH='torch==2.6.*' make operator
CONSTRAINTS ?= constraints.txt
TORCH ?= torch

.PHONY: help env test check operator book lint clean
help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 10

env: $(STAMP) $(if $(filter required,$(LAE_KERNEL)),$(KERNEL)) ## create .venv with everything that the tests and the book need
$(STAMP): pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[test]' '$(TORCH)'
	touch $@
$(KERNEL): lae_core/pooling/kernel.c setup.py | $(STAMP)
	$(BIN)/python setup.py --quiet build_ext --inplace --force
	touch $@

test: env ## unit and property tests, every notebook at smoke, the book in a browser (about 8 minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long"

check: env ## the long tests as well: all models, kill matrix, real data, clean install, SLURM
	$(BIN)/python -m pytest -n 2 --dist worksteal

operator: env ## the tests of the operator and of the networks alone
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long" tests/pooling tests/models

book: env ## execute what is stale and build _build/html/index.html; OPTIONS=--zip packs the pages too, --print makes one page
	$(BIN)/lae book $(OPTIONS)

lint: env ## style, types, the order of imports, the code of notebooks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy lae_core
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python ci/lint_notebooks.py

clean: ## remove built pages and caches, keep the environment
	rm -rf _build .pytest_cache .hypothesis
