"""Every command block of the documentation is run by a test or listed with a reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.command_block_fixtures import ROOT, CommandBlock, command_blocks, page_shell, pages
from tests.documentation.test_pages import ALONE, TEAM, TOKENS

RUN_ELSEWHERE: Final = {
    ("authorization.md", "From a new server to two teams"): "tests/spark/test_two_teams.py",
    ("events.md", "Read events from a program"): "tests/events/test_feed_of_a_server.py",
    ("trino-opa.md", "Set it up"): "tests/engines/test_trino.py",
    ("engines.md", "Flink"): "tests/engines/test_flink.py",
    ("keycloak.md", "In Icekeeper"): "tests/keycloak/test_keycloak_page.py",
    ("events.md", "Deliver to NATS"): "tests/events/sinks/test_consumers.py",
    ("events.md", "Deliver to Kafka"): "tests/events/sinks/test_consumers.py",
    ("events.md", "Verify a signature"): "tests/events/sinks/test_webhook.py",
}
"""Sections that another test runs as they are on the page."""

OTHER_MACHINES = "the servers that it names do not exist"
SETTINGS = "settings alone: "
STORE = "it takes a warehouse in an object store of yours; the same is done in "
TRIED, NOT_TRIED = "tried by hand, as the page says", "not tried, as the page says"
IDS = "it continues an example of names and ids that no page creates; the same is done in "

NOT_RUN: Final = {
    ("README.md", "/etc/icekeeper.env"): OTHER_MACHINES + ": tests/documentation/test_readme.py",
    ("access-review.md", '/access-review"'): IDS + "tests/authz/test_access_reviews.py",
    ("access-review.md", "$api/access-review?"): IDS + "tests/authz/test_access_reviews.py",
    ("access-review.md", "reached-objects"): IDS + "tests/authz/test_access_reviews_as_csv.py",
    ("change-approval.md", "DROP COLUMN"): IDS + "tests/spark/test_spark_change_rules.py",
    ("change-approval.md", "NoDropsOnFridays"): SETTINGS + "tests/approval/test_vetoes.py",
    ("audit.md", "hashlib"): "it reads an export of yours: tests/management/test_audit_chain.py",
    ("audit.md", "verify_audit"): "it breaks one row of the example's trail: tests/management/test_audit_chain.py",
    ("authentication.md", "LAKEKEEPER__OPENID_PROVIDER_URI="): SETTINGS + "tests/keycloak/test_identities.py",
    ("authentication.md", "LAKEKEEPER__OPENID_PROVIDERS__"): SETTINGS + "tests/unit/conf/test_environment.py",
    ("authentication.md", "LAKEKEEPER__ENABLE_KUBERNETES"): SETTINGS + "tests/unit/conf/test_environment.py",
    ("authorization.md", "--admin oidc~7c9e6679"): IDS + "tests/management/test_commands.py",
    (
        "console.md",
        "  console               http",
    ): "it runs until it is stopped: tests/console/sign_in/test_announcement.py",
    ("commands.md", "events status"): IDS + "tests/management/test_events_command.py",
    ("console.md", "sign_in_address"): "the code differs each time: tests/console/browser/test_using.py",
    ("console.md", "LAKEKEEPER__UI__OPENID_CLIENT_ID"): SETTINGS + "tests/console/sign_in/test_keycloak.py",
    ("console.md", "set_password"): "it asks for a password: tests/console/sign_in/test_ways_in.py",
    ("console.md", "FROM sales.orders JOIN"): "it is for the page SQL: tests/console/tables/test_sql.py",
    ("engines.md", "SAIL_CATALOG__LIST"): "settings of Sail with the keys of a store: tests/engines/test_sail.py",
    ("engines.md", "CREATE OR REPLACE TABLE"): "it fetches Spark's jars: tests/spark/test_spark_sql.py",
    ("engines.md", "remote-signing"): TRIED,
    ("engines.md", "SparkConnectServer"): STORE + "tests/engines/test_sail.py",
    ("engines.md", "IcebergRestCatalog"): STORE + "tests/engines/test_iceberg_js.py",
    ("engines.md", "INSTALL iceberg"): TRIED,
    ("engines.md", "allow_database_iceberg"): TRIED,
    ("engines.md", "CREATE EXTERNAL CATALOG"): NOT_TRIED,
    ("engines.md", "CREATE CONNECTION"): NOT_TRIED,
    ("engines.md", "'iceberg.rest.uri'"): NOT_TRIED,
    ("engines.md", "go install"): "it fetches and builds iceberg-go",
    ("engines.md", "flink run"): "it takes a Flink cluster with Fluss",
    ("engines.md", "/protection"): IDS + "tests/management/test_protection.py",
    ("events.md", "LAKEKEEPER__NATS_ADDRESS=tls:"): SETTINGS + "tests/unit/conf/test_event_sinks.py",
    ("events.md", "SASL_SSL"): SETTINGS + "tests/unit/conf/test_event_sinks.py",
    ("events.md", "LAKEKEEPER__LOG_CLOUDEVENTS="): SETTINGS + "tests/unit/conf/test_event_sinks.py",
    ("events.md", "text/event-stream"): "it runs until it is stopped: tests/events/test_feed_of_a_server.py",
    ("getting-started.md", "make demo"): "a stage of its own in CI, which takes minutes",
    ("getting-started.md", "spark-sql"): "it fetches Spark's jars: tests/spark has the same settings",
    ("keycloak.md", "bin/kc.sh start-dev"): "tests/parts/keycloak.py starts Keycloak with the same realm",
    ("keycloak.md", "load_catalog"): "the same calls in one test each: tests/keycloak/test_pyiceberg.py",
    ("migration.md", "FROM iceberg_tables"): TRIED,
    ("migration.md", 'FROM "TBLS"'): TRIED,
    ("migration.md", "0 new, 0 replaced, 3 unchanged"): OTHER_MACHINES
    + ": tests/management/test_register_tables_from_catalog.py",
    ("migration.md", "3 new, 0 replaced, 0 unchanged"): OTHER_MACHINES + ": tests/management/test_register_tables.py",
    ("migration.md", "Polaris-Realm"): OTHER_MACHINES + ": tests/management/test_register_tables_from_catalog.py",
    ("migration.md", "jdbc.sql"): OTHER_MACHINES + ": tests/management/test_register_tables.py",
    ("openfga.md", "openfga.example.com"): OTHER_MACHINES + ": tests/openfga/test_server.py",
    ("install.md", "pip install"): "the environment of the tests is installed so: scripts/environment.py",
    (
        "install.md",
        "postgresql://icekeeper:secret",
    ): "the database that it names does not exist: every test on PostgreSQL",
    ("install.md", "check --deploy"): "it is about that database: tests/management/test_deploy_checks.py",
    (
        "install.md",
        '"accept-terms-of-use"',
    ): "it is for a server that is not bootstrapped; keycloak.md does the same",
    ("install.md", "--admin oidc~bob"): IDS + "tests/management/test_commands.py",
    (
        "install.md",
        "--file catalog.yaml",
    ): "the file above it names a store: tests/management/test_bootstrap_file.py",
    ("drops.md", "deleted-tabulars/undrop"): IDS + "tests/authz/test_hiding.py",
    ("drops.md", '"destination"'): IDS + "tests/management/test_namespace_moves.py",
    ("drops.md", "search-tabular"): IDS + "tests/management/test_search_tabulars.py",
    ("drops.md", "$W/statistics"): IDS + "tests/management/test_warehouse_statistics.py",
    ("drops.md", "location_reservations"): IDS + "tests/management/test_location_reservations_command.py",
    ("tasks.md", "celery -A icekeeper beat"): "the broker that it names does not exist: tests/workers/test_celery.py",
    ("tasks.md", "manage.py worker"): "it runs until it is stopped: tests/workers/test_processes.py, test_worker.py",
    ("tasks.md", "manage.py tasks list"): "it needs a failed task: tests/management/test_tasks_command.py",
    ("tasks.md", "task/list"): IDS + "tests/management/test_tasks_api.py",
    ("tasks.md", "task/control"): IDS + "tests/management/test_tasks_api.py",
    ("tasks.md", "task-queue/"): IDS + "tests/management/test_tasks_api.py, test_tasks_command.py",
    ("secrets.md", "rotate_encryption_key"): "it needs a key before: tests/storage/test_key_rotation.py",
    ("secrets.md", "move_secrets"): "it needs a Vault: tests/management/test_warehouses_in_vault.py",
    ("storage-access.md", '"storage-credentials"'): STORE + "tests/iceberg_rest/test_storage_access.py",
    ("storage.md", "storage.json"): STORE + "tests/storage/test_storage_page.py",
    ("storage.md", '"new-storage-credential"'): STORE + "tests/management/test_warehouse_storage.py",
    ("storage.md", "check_storage minio"): STORE + "tests/storage/test_storage_page.py",
    ("storage.md", '"name": "star"'): STORE + "tests/storage/test_storage_page.py",
    ("storage.md", "check_storage azurite"): STORE + "tests/storage/test_storage_page.py",
    ("storage.md", "check_storage gcs"): STORE + "tests/storage/test_storage_page.py",
    ("storage.md", "warehouse-creation-validation"): STORE + "tests/management/test_warehouse_validation.py",
    ("storage-access.md", "$ sign()"): STORE + "tests/iceberg_rest/test_signing.py",
    ("secrets.md", "http://2852039166/"): IDS + "tests/storage/test_endpoints.py",
    ("tokens.md", "those of `make run`"): TRIED,
    ("tokens.md", "load_catalog"): "the same calls in one test each: tests/keycloak/test_pyiceberg.py",
    ("view-security.md", "list_view_owners"): IDS + "tests/authz/test_view_security_owners.py",
    ("view-security.md", "TRUSTED_ENGINES"): SETTINGS + "tests/unit/conf/test_trusted_engines.py",
    ("warehouses.md", '"warehouse-name": "lake"'): STORE + "tests/iceberg_rest/test_object_store_warehouses.py",
    ("warehouses.md", "/protection"): IDS + "tests/management/test_warehouse_updates.py",
    ("warehouses.md", "other-bucket"): STORE + "tests/management/test_warehouse_storage.py",
    ("warehouses.md", '"readable"'): IDS + "tests/iceberg_rest/test_layouts.py",
}
"""Page and a text that only the block has, with the reason."""


def _blocks() -> list[CommandBlock]:
    return [block for page in pages() for block in command_blocks(page)]


def _reasons(block: CommandBlock) -> list[str]:
    return [reason for (page, text), reason in NOT_RUN.items() if page == block.page and text in block.content]


def _is_run(block: CommandBlock) -> bool:
    return (block.page, block.heading) in {*RUN_ELSEWHERE, *ALONE, *TEAM, *TOKENS}


def test_each_block_is_run_or_has_a_reason() -> None:
    unknown = [str(block) for block in _blocks() if not _is_run(block) and not _reasons(block)]
    assert not unknown, "\n".join(unknown)


def test_each_reason_is_that_of_one_block() -> None:
    for (page, text), reason in NOT_RUN.items():
        found = [block for block in _blocks() if block.page == page and text in block.content]
        assert len(found) == 1, (page, text, [str(block) for block in found])
        for test in re.findall(r"tests/\S+\.py", reason):
            assert (ROOT / test).exists(), test


def test_tests_that_run_sections_name_them() -> None:
    sections = {(block.page, block.heading) for block in _blocks()}
    for (page, heading), test in RUN_ELSEWHERE.items():
        assert (page, heading) in sections
        source = (ROOT / test).read_text()
        assert page in source
        assert heading in source


PAGE = """# Title
```console
$ echo one
two
$ echo 0190c3a0-0000-7000-8000-00000000000a ends
0190c3a0-... ends
```
## Below
```json
{"a": 1}
```
```sh
# A comment that begins a block
echo one
# one
echo two \\
  three
# two ...
```
"""


@pytest.fixture
def blocks(tmp_path: Path) -> list[CommandBlock]:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    return list(command_blocks(page))


def test_blocks_and_their_headings_are_found(blocks: list[CommandBlock]) -> None:
    assert [(block.heading, block.line, block.kind) for block in blocks] == [
        ("Title", 2, "console"),
        ("Below", 12, "sh"),
    ]


def test_another_response_than_that_of_the_page_is_found(tmp_path: Path, blocks: list[CommandBlock]) -> None:
    with page_shell(tmp_path) as shell:
        shell.run(blocks[1:])
        shell.run(blocks, with_responses=False)
        with pytest.raises(AssertionError, match=r"echo one\nis on page.md: \['two'\]\nnow: \['one'\]"):
            shell.run(blocks)


@pytest.mark.parametrize("command", ["false", """echo '{"error":{"code":404}}'"""])
def test_a_command_that_fails_is_found(tmp_path: Path, command: str) -> None:
    with page_shell(tmp_path) as shell, pytest.raises(AssertionError, match="returned"):
        shell.run([CommandBlock("page.md", "Title", 1, "sh", f"{command}\n")])
