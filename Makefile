# Every target installs what it needs into $(VENV) first, once per change of pyproject.toml.
#   make test ARGS='-k kv_transfer -x -n0'      make demo ARGS='--scenario kv_transfer_bandwidth'

VENV ?= .venv
# The Python that makes $(VENV): the first that is new enough. `make PYTHON=/opt/python/bin/python3 test` overrides it.
PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)
ARGS ?=

BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo stack test lint bench e2e-real

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r target text; do \
		printf '%-10s %s\n' "$$target" "$$text"; done

demo: $(RUNTIME) ## the daemon on a simulated deployment, at http://127.0.0.1:9836
	$(BIN)/pdscope demo $(ARGS)

stack: $(RUNTIME) ## the demo with Prometheus and Alertmanager of Debian's packages, on the loopback interface
	$(BIN)/python scripts/stack.py $(ARGS)

test: $(DEV) ## all tests
	$(BIN)/pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile $(ARGS)

lint: $(DEV) ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV) ## run the benchmarks, one after the other
	@set -- benchmarks/bench_*.py; \
	if [ ! -e "$$1" ]; then echo 'make bench: there is no benchmark yet' >&2; exit 1; fi; \
	for file; do echo "$$file"; $(BIN)/python "$$file" $(ARGS) || exit; done

e2e-real: ## the test against real engines (none exists yet)
	@echo 'make e2e-real: there is no run against real engines yet; the tests use simulated engines and recorded pages' >&2; exit 1

$(BIN)/python:
	@if [ -z '$(PYTHON)' ]; then echo 'Python 3.11 or newer is needed; on Debian 12: apt-get install python3 python3-venv' >&2; exit 1; fi
	@if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
		echo '$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv' >&2; exit 1; fi
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(RUNTIME)
