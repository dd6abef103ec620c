# Everything a developer does here. A fresh machine needs make and Python 3.11 or newer, nothing else.

PYTHON ?= python3
ARGS ?=
RUNS ?=
IN := .venv/bin/python

# Progress is shown when it happens, also where the output is a pipe (CI).
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo run test test-all test-long test-engines lint lint-style lint-types lint-layers lint-migrations lint-openapi lint-docs lint-words \
	fmt bench rck parts openapi docs constraints clean python environment

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: python ## Make .venv with the server and Spark
	@$(PYTHON) scripts/environment.py requirements.txt requirements-spark.txt

demo: setup ## Serve a catalog, store and read real data through it with Spark, stop (STORE=minio: on object storage)
	@$(IN) manage.py demo $(if $(STORE),--store $(STORE)) $(ARGS)

run: export ICEKEEPER__DATA_DIR ?= $(CURDIR)/.icekeeper
run: export ICEKEEPER__LOCAL_STORAGE_ROOT ?= $(ICEKEEPER__DATA_DIR)/storage
run: export LAKEKEEPER__BIND_IP ?= 127.0.0.1
run: setup ## Serve on 127.0.0.1:8181 until Ctrl-C; state stays in .icekeeper/
	@$(IN) manage.py quickstart $(ARGS)

test: environment ## Run the tests that need nothing but Python, on SQLite and on PostgreSQL (ARGS="-k commits" goes to pytest)
	@$(IN) -m tests.parts --packages
	@$(IN) -m scripts.run_tests --runs "sqlite postgres" $(ARGS)

test-all: parts ## Run all tests, with servers, object stores, OpenFGA, Keycloak and Spark (RUNS="parts" for some of the runs)
	@$(IN) -m scripts.run_tests $(if $(RUNS),--runs "$(RUNS)") $(ARGS)

test-long: parts ## The same with the long random and fault runs
	@ICEKEEPER_TEST_LONG=1 $(IN) -m scripts.run_tests $(if $(RUNS),--runs "$(RUNS)") $(ARGS)

test-engines: environment ## Run real engines: Trino with the Open Policy Agent, Flink, Kafka Connect, Sail, iceberg-js
	@$(IN) -m tests.parts --engines
	@ICEKEEPER_TEST_DATABASE=postgres ICEKEEPER_TEST_PARTS=required $(IN) -m pytest --run=engines tests/engines $(ARGS)

lint: lint-style lint-types lint-layers lint-migrations lint-openapi lint-docs lint-words ## Check style, types, layers, migrations, OpenAPI, docs and words

# What only reads the sources must not make or touch the state of `make run`.
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

# Folders are added here when they are free of the words of scripts/words.toml; `python -m scripts.check_words` checks all.
WORDS := storage tasks catalog docker tenancy/audit tenancy/authn tenancy/models tenancy/services tenancy/selectors management/api management/openapi

lint-words: environment
	@$(IN) -m scripts.check_words $(WORDS)

lint-docs: environment
	@$(IN) manage.py document_settings --check
	@$(IN) -m scripts.draw_rights --check

fmt: environment ## Format the sources and mend what ruff can mend
	@$(IN) -m ruff check --fix --exit-zero .
	@$(IN) -m ruff format .

bench: parts ## Measure the catalog against its floors (ARGS="--seconds 8" for steadier figures)
	@$(IN) -m tests.perf $(ARGS)

rck: parts ## Run Iceberg's REST Compatibility Kit on SQLite and on PostgreSQL (ARGS="--suite table")
	@$(IN) -m tests.rck $(ARGS)

parts: environment ## Fetch the servers and jars that tests need into .parts/ and say what is there
	@$(IN) -m tests.parts

openapi: environment ## Write the OpenAPI document anew
	@$(IN) manage.py openapi

docs: environment ## Write the generated pages and pictures of docs/ anew
	@$(IN) manage.py document_settings
	@$(IN) -m scripts.draw_rights

constraints: python ## Pin what the requirement files need in turn (constraints.txt), from a clean install
	@$(PYTHON) scripts/pin_constraints.py

clean: ## Remove environment, parts and caches; .icekeeper/ stays
	rm -rf .venv .parts .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build static .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the targets stand on.

python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on this machine. Debian, Ubuntu: apt install python3 python3-venv" >&2; exit 1; }

environment: python
	@$(PYTHON) scripts/environment.py requirements.txt requirements-spark.txt requirements-dev.txt
