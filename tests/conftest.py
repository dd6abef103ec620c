"""Set-up of every test run: environment, Django, parts, marks, selection of tests, and the live catalog."""

from __future__ import annotations

import argparse
import atexit
import os
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from tests import loopback
from tests.parts import registry
from tests.parts.process import PartError
from tests.parts.server import CatalogServer
from tests.run_environment import RunEnvironment

HERE = Path(__file__).parent
DATABASE_FIXTURES = {"db", "transactional_db", "live_catalog", "run_environment"}
STARTED_PARTS = {"keycloak", "minio", "seaweedfs", "azurite", "fake_gcs", "openfga", "opa"}
"""Fixtures that start the part of their name."""

RUNS = ("sqlite", "postgres", "servers-sqlite", "servers-postgres", "parts", "engines")
"""`make test` has the first two, `make test-all` the first five, `make test-engines` the last."""

PACKAGED_PARTS = {"postgresql", "shell"}
"""Parts that `make test` installs or finds on any machine; tests that need another one are in the run `parts`."""

BOTH_DATABASES = ("faults", "model", "workers")
"""Folders whose tests are all about the database."""

SERVER_FOLDERS = ("documentation", "faults", "model", "server", "workers")
"""Folders whose tests start processes of the product, kill them, or let them work for long."""

SERVER_NAMES = ("CatalogServer", "BareServer", "live_catalog")
"""A test module that names one of these starts servers."""

PART_FOLDERS = ("engines", "fuzz", "keycloak", "spark")
"""Folders that are all in the run `parts`."""

IS_LONG = os.environ.get("ICEKEEPER_TEST_LONG") == "1"

# pytest-django would read the settings before any conftest if the ini file named them; so they are set here, after the
# environment that they read is complete, and Django is ready before the conftests of the folders below.
if os.environ.get("DJANGO_SETTINGS_MODULE"):
    raise pytest.UsageError("Unset DJANGO_SETTINGS_MODULE: the tests choose their settings and database themselves")
RUN = RunEnvironment()
atexit.register(RUN.leave)
try:
    RUN.enter()
except PartError as error:
    raise pytest.UsageError(f"The tests cannot start: {error}") from error

import django  # noqa: E402

django.setup()

from django.conf import settings  # noqa: E402

from management import health  # noqa: E402
from tenancy.audit import collector as audit_collector  # noqa: E402

# A test's transaction is on `default`, and no other connection sees its changes; the live server reads through `read`.
settings.READ_DATABASE = "default"

# On a busy machine SQLite may take half a second to write the audit rows of a request, and an interrupted statement
# breaks the transaction of the test.
audit_collector.MAX_WAIT_SECONDS = 60.0  # type: ignore[misc]

# A new connection must not take three seconds either.
health.CHECK_SECONDS = 60.0

pytest_plugins = [
    "tests.authorization_fixtures",
    "tests.catalog_fixtures",
    "tests.identity_fixtures",
    "tests.named_callers",
    "tests.openfga_fixtures",
    "tests.storage_fixtures",
    "tests.tag_fixtures",
    "tests.token_fixtures",
]

hypothesis.settings.register_profile("short", deadline=None, print_blob=True)
hypothesis.settings.register_profile("long", deadline=None, print_blob=True, max_examples=2_000)
hypothesis.settings.load_profile("long" if IS_LONG else "short")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--run",
        choices=RUNS,
        help="select the tests of this run of `make test`, `make test-all` or `make test-engines`",
    )
    parser.addoption(
        "--share",
        type=_read_share,
        metavar="K/N",
        help="of the test modules, only the K-th of N shares, which can run in parallel with the other shares",
    )


def _read_share(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"is K/N, such as 1/2, not {text}")
    return int(number), int(count)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "part(name): needs this real part of tests/parts/registry.py")
    config.addinivalue_line("markers", "both_databases: runs on SQLite as well as on PostgreSQL")
    config.addinivalue_line("markers", "long: a long random or fault run, only with ICEKEEPER_TEST_LONG=1")
    loopback.refuse_other_networks()


def pytest_unconfigure() -> None:
    RUN.leave()


def pytest_report_header() -> list[str]:
    return [f"database: {registry.look_up('postgresql') if RUN.postgres else 'SQLite'}"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules of another share or run, as far as the folder or the text of the module shows it."""
    share = config.getoption("--share")
    if share and _is_test_module(collection_path) and not _is_in_share(collection_path, *share):
        return True
    run = config.getoption("--run")
    if run in {None, "engines", "parts"}:
        return None
    if any(collection_path == HERE / folder for folder in PART_FOLDERS):
        return True
    if not _is_test_module(collection_path):
        return None
    return True if _starts_servers(collection_path) != run.startswith("servers-") else None


def _is_test_module(path: Path) -> bool:
    return path.name.startswith("test_") and path.suffix == ".py"


def _is_in_share(module: Path, number: int, count: int) -> bool:
    """Return whether the hash of the module's path is in the share: the same on each machine, and even over folders."""
    return zlib.crc32(str(module.relative_to(HERE)).encode()) % count == number - 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        _require_one_way_to_empty(item)
        if _is_below(item, "spark"):
            item.add_marker(pytest.mark.part("spark"))
            item.add_marker(pytest.mark.timeout(900))
        for name in STARTED_PARTS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.part(name))
        if _is_below(item, "engines"):
            item.add_marker(pytest.mark.timeout(1_800))
        if _needs_keycloak(item):
            item.add_marker(pytest.mark.timeout(900))
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3_600))
    if run := config.getoption("--run"):
        config.hook.pytest_deselected(items=[item for item in items if run not in _runs_of(item)])
        items[:] = [item for item in items if run in _runs_of(item)]


def _require_one_way_to_empty(item: pytest.Item) -> None:
    """Require `serialized_rollback` of transactional tests, so that tests pass in every order."""
    for mark in item.iter_markers("django_db"):
        if mark.kwargs.get("transaction") and not mark.kwargs.get("serialized_rollback"):
            raise pytest.UsageError(f"{item.nodeid}: django_db(transaction=True) needs serialized_rollback=True")


def _is_below(item: pytest.Item, folder: str) -> bool:
    return item.path.is_relative_to(HERE / folder)


def _needs_keycloak(item: pytest.Item) -> bool:
    return "keycloak" in getattr(item, "fixturenames", ())


def _runs_of(item: pytest.Item) -> set[str]:
    """Return the runs that have this test.

    A test that uses a database runs on PostgreSQL, and on SQLite too if the databases can differ in its subject: locks,
    order, paging, plans, counts, migrations, names, workers, faults, and each service and selector once. Those have the
    mark `both_databases`. A test without a database runs once, in the run of SQLite. Tests that start servers of the
    product have separate runs. A test with a third-party part runs once, on PostgreSQL: it tests our use of that part,
    which is the same code on SQLite.
    """
    parts = {mark.args[0] for mark in item.iter_markers("part")} - PACKAGED_PARTS
    if _is_below(item, "engines"):
        return {"engines"} if parts & set(registry.LARGE_ENGINES) else {"parts", "engines"}
    if parts or _is_below(item, "fuzz"):  # random requests: on PostgreSQL, which rejects more of the hostile ones
        return {"parts"}
    prefix = "servers-" if _starts_servers(item.path) else ""
    return {f"{prefix}{database}" for database in _databases_of(item)}


def _databases_of(item: pytest.Item) -> set[str]:
    needs_database = item.get_closest_marker("django_db") or DATABASE_FIXTURES & set(getattr(item, "fixturenames", ()))
    if not needs_database:
        return {"sqlite"}
    is_marked = item.get_closest_marker("both_databases") or any(_is_below(item, folder) for folder in BOTH_DATABASES)
    return {"sqlite", "postgres"} if is_marked else {"postgres"}


@cache
def _starts_servers(module: Path) -> bool:
    if any(module.is_relative_to(HERE / folder) for folder in SERVER_FOLDERS):
        return True
    source = module.read_text()
    return any(name in source for name in SERVER_NAMES)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("long") and not IS_LONG:
        pytest.skip("a long run: make test-long")
    for mark in item.iter_markers("part"):
        state = registry.look_up(mark.args[0])
        if isinstance(state, registry.Missing):
            (pytest.fail if registry.are_required() else pytest.skip)(str(state))


@pytest.fixture(scope="session")
def run_environment() -> RunEnvironment:
    """The run's database kind, PostgreSQL server and folders, for tests that start processes."""
    return RUN


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """Use a file for SQLite tests: only so do several connections, WAL and busy timeouts behave as in production."""
    from django.conf import settings

    if RUN.postgres is None:
        for alias, database in settings.DATABASES.items():
            database.setdefault("TEST", {})["NAME"] = str(RUN.home / f"test-{alias}.sqlite3")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Close every pool before the test database is dropped: Django itself closes that of `default` only."""
    from django.db import connections

    yield
    for connection in connections.all(initialized_only=True):
        connection.close()
        if hasattr(connection, "close_pool"):
            connection.close_pool()


@pytest.fixture(scope="session")
def live_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """The real server on the run's kind of database, with the warehouse `live` on local files."""
    database_url = RUN.postgres.create_database("live_catalog") if RUN.postgres else None
    with CatalogServer(tmp_path_factory.mktemp("live"), database_url=database_url) as server:
        server.create_warehouse("live")
        yield server
