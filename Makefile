# Everything a developer or an operator starts by hand. `make` alone lists it.
# Plain GNU make and /bin/sh; needs nothing but Python 3.11 or newer, and says so where something is missing.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
UV_VERSION := 0.13.9
BIN := .venv/bin
# Stamps: newer than the lock means installed as the lock says.
RUNTIME := .venv/.installed
DEVELOPMENT := .venv/.installed-dev
TESTS ?= test

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install demo test test-slow check lint format bench bench-matching system-packages browser

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(RUNTIME) ## .venv with exactly the locked dependencies, and the bitong command in it

demo: install system-packages ## Bitong on embedded defaults, in the foreground
	$(BIN)/bitong demo

test: $(DEVELOPMENT) system-packages browser ## the tests, without the slow ones
	$(BIN)/pytest

test-slow: $(DEVELOPMENT) system-packages browser ## the slow tests alone
	$(BIN)/pytest -m slow

check: lint $(TESTS) ## format, lint, types, contracts, tests

lint: $(DEVELOPMENT) ## format, lint, types, contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEVELOPMENT) ## write the code in the one format, imports sorted
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

bench: $(DEVELOPMENT) system-packages ## benchmarks, tables on standard output
	$(BIN)/python -m tests.benchmarks

bench-matching: $(DEVELOPMENT) ## how well intents find their tools
	$(BIN)/python -m tests.benchmarks.matching

NEED_PYTHON = [ -n "$(PYTHON)" ] || { echo "Bitong needs Python 3.11 or newer. On Debian: sudo apt-get install python3" >&2; exit 1; }

# An installed uv serves; without one, uv comes from PyPI into a folder of its own: .venv then holds what the lock says and no more.
# Once the tests' dependencies are in .venv, `make install` keeps them there.
UV_FOUND := $(shell command -v uv 2>/dev/null)
UV := $(or $(UV_FOUND),.uv/bin/uv)
# An existing .venv keeps its Python: with a path that differs only in spelling uv would remove it, under a service that runs from it.
SYNC = UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv $(UV) sync --locked \
	$(if $(wildcard $(BIN)/python),,--python "$$(command -v $(PYTHON))")

$(RUNTIME): uv.lock pyproject.toml $(if $(UV_FOUND),,.uv/bin/uv)
	@$(NEED_PYTHON)
	$(SYNC) $(if $(wildcard $(DEVELOPMENT)),,--no-dev)
	@touch $@

$(DEVELOPMENT): uv.lock pyproject.toml $(if $(UV_FOUND),,.uv/bin/uv)
	@$(NEED_PYTHON)
	$(SYNC)
	@touch $(RUNTIME) $@

.uv/bin/uv:
	@$(NEED_PYTHON)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(call apt-install,python3-venv); }
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# git serves the tools and the tests, bubblewrap shuts in what shell tools run.
system-packages:
	@missing=; \
	command -v git >/dev/null 2>&1 || missing="$$missing git"; \
	command -v bwrap >/dev/null 2>&1 || missing="$$missing bubblewrap"; \
	[ -z "$$missing" ] || { $(call apt-install,$$missing); }

# The pages are tested in a real browser; where there is none, those tests alone are skipped and say so.
browser:
	@command -v chromium >/dev/null 2>&1 || ( $(call apt-install,chromium fonts-noto-cjk) ) \
		|| echo "The pages' tests will be skipped." >&2

# $(call apt-install,PACKAGES): installs where that can be done without asking anyone, else says what to do, and fails.
define apt-install
if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq && apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $(1); \
else echo "Missing:" $(1) "- install it first. On Debian: sudo apt-get install" $(1) >&2; exit 1; fi
endef
