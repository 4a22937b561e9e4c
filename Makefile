# Two commands: `make smoke` runs the main job, `make test` proves the project. Both set everything up first.
SHELL := /bin/bash
BIN := .venv/bin
ARGS ?=
UV ?= uv
export PYTHON

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help smoke test setup python lint bench lock clean

help: ## this text
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '%s\n' '' \
	  '  ARGS="-k NAME -n 4"       more arguments for pytest (smoke, test) or the benchmark (bench)' \
	  '  PYTHON=python3.12         the Python (3.11 or newer) that .venv is made with' \
	  '  DOCKER_HOST=URL           the container engine to use; else the docker context, else the usual sockets' \
	  '  SWE_PYTEST_INSTALL=0      never install system packages nor start an engine' \
	  '  SWE_PYTEST_BASE_IMAGE=X   base image of locally built tasks; else swe-pytest/base:bookworm, pulled or made'

smoke: setup ## set up, then run the main job: suites/smoke on real packages in real containers
	@$(BIN)/swe-pytest prepare pypi_fixes
	@$(BIN)/pytest suites/smoke $(ARGS)

test: setup lint ## set up, then run the linters and the project's tests
	@$(BIN)/pytest tests -n 2 $(ARGS)

setup: python ## make .venv, find or start a container engine, get the base image
	@$(BIN)/python setup/engine.py
	@$(BIN)/python setup/base_image.py

python: ## only make .venv
	@setup/python.sh

lint: python ## ruff, mypy --strict, shellcheck
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy setup
	@if [ -x $(BIN)/shellcheck ]; then $(BIN)/shellcheck setup/*.sh .ci/run; fi

bench: setup ## measure what the harness costs
	@$(BIN)/python -m bench $(ARGS)

lock: ## resolve requirements.lock anew from pyproject.toml (needs uv)
	@$(UV) pip compile pyproject.toml --extra dev --extra pypi_fixes --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --upgrade --custom-compile-command "make lock" --quiet -o requirements.lock

clean: ## remove what set-up and tests made in this folder; results in swe-pytest-runs/ stay, as does the engine
	rm -rf .venv .swe_pytest *.egg-info build dist .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
