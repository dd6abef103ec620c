# All tasks of a developer. A new machine needs only GNU make and Python 3.11 or newer.

PYTHON ?= python3
ARGS ?=
RUNS ?=
IN := .venv/bin/python

# Show progress immediately, also if the output is a pipe (CI).
export PYTHONUNBUFFERED := 1

# Without bytecode each run of pytest would compile all tests again, and each server that they start its sources.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo run test test-all test-long test-engines chaos lint lint-style lint-types lint-layers lint-migrations lint-openapi lint-docs lint-words \
	fmt bench rck parts openapi docs constraints clean python environment

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: python ## Create .venv with the server and Spark
	@$(PYTHON) scripts/environment.py requirements.txt requirements-spark.txt

demo: setup ## Start a catalog, write and read data with Spark, stop (STORE=minio: on object storage)
	@$(IN) manage.py demo $(if $(STORE),--store $(STORE)) $(ARGS)

run: export ICEKEEPER__DATA_DIR ?= $(CURDIR)/.icekeeper
run: export ICEKEEPER__LOCAL_STORAGE_ROOT ?= $(ICEKEEPER__DATA_DIR)/storage
run: export LAKEKEEPER__BIND_IP ?= 127.0.0.1
run: setup ## Serve on 127.0.0.1:8181 until Ctrl-C; the data stays in .icekeeper/
	@$(IN) manage.py quickstart $(ARGS)

test: environment ## Run the tests that need only Python, on SQLite and on PostgreSQL (ARGS="-k commits" for pytest)
	@$(IN) -m tests.parts --packages
	@$(IN) -m scripts.run_tests --runs "sqlite postgres" $(ARGS)

test-all: parts ## Run all tests, with servers, object stores, OpenFGA, Keycloak and Spark (RUNS="parts" for some of the runs)
	@$(IN) -m scripts.run_tests $(if $(RUNS),--runs "$(RUNS)") $(ARGS)

test-long: parts ## Run all tests, including the long random and fault tests
	@ICEKEEPER_TEST_LONG=1 $(IN) -m scripts.run_tests $(if $(RUNS),--runs "$(RUNS)") $(ARGS)

chaos: parts ## Kill and interrupt all parts of a deployment under load, then compare everything (MINUTES=2, ARGS="--seed 7")
	@$(IN) -m tests.chaos --minutes $(or $(MINUTES),2) $(ARGS)

test-engines: environment ## Run real engines: Trino with the Open Policy Agent, Flink, Kafka Connect, Sail, iceberg-js
	@$(IN) -m tests.parts --engines
	@ICEKEEPER_TEST_DATABASE=postgres ICEKEEPER_TEST_PARTS=required $(IN) -m pytest --run=engines tests/engines $(ARGS)

lint: lint-style lint-types lint-layers lint-migrations lint-openapi lint-docs lint-words ## Check style, types, layers, migrations, OpenAPI, docs and words

# Targets that only read the sources must not change the state of `make run`.
lint-types lint-migrations lint-openapi lint-docs openapi docs: export ICEKEEPER__DATA_DIR := $(CURDIR)/build/state

lint-style: environment
	@$(IN) -m ruff check .
	@$(IN) -m ruff format --check .

lint-types: environment
	@$(IN) -m mypy

lint-layers: environment
	@.venv/bin/lint-imports

lint-migrations: environment
	@$(IN) manage.py makemigrations --check --dry-run

lint-openapi: environment
	@$(IN) manage.py openapi --check

# All sources and pages; `python -m scripts.check_words PATHS` checks some of them.
lint-words: environment
	@$(IN) -m scripts.check_words

lint-docs: environment
	@$(IN) manage.py document_settings --check
	@$(IN) -m scripts.draw_rights --check

fmt: environment ## Format the sources and apply the fixes of ruff
	@$(IN) -m ruff check --fix --exit-zero .
	@$(IN) -m ruff format .

bench: parts ## Measure the catalog and the lower bounds of its stack (ARGS="--seconds 8" for more stable figures)
	@$(IN) -m tests.perf $(ARGS)

rck: parts ## Run Iceberg's REST Compatibility Kit on SQLite and on PostgreSQL (ARGS="--suite table")
	@$(IN) -m tests.rck $(ARGS)

parts: environment ## Download the servers and jars for tests into .parts/ and list them
	@$(IN) -m tests.parts

openapi: environment ## Generate the OpenAPI documents
	@$(IN) manage.py openapi

docs: environment ## Generate the configuration page and the pictures of docs/
	@$(IN) manage.py document_settings
	@$(IN) -m scripts.draw_rights

constraints: python ## Pin all dependencies of the requirement files (constraints.txt), from a clean installation
	@$(PYTHON) scripts/pin_constraints.py

clean: ## Delete the environment, parts and caches, but not .icekeeper/
	rm -rf .venv .parts .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build static .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Prerequisites of the other targets.

python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on this machine. Debian, Ubuntu: apt install python3 python3-venv" >&2; exit 1; }

environment: python
	@$(PYTHON) scripts/environment.py requirements.txt requirements-spark.txt requirements-dev.txt
