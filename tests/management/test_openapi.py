"""The OpenAPI documents are valid, complete, equal to the committed ones, and consistent with the config endpoint."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from openapi_spec_validator import validate

from catalog.api.config import ENDPOINTS, ConfigViewSet
from catalog.iceberg.requirements import TABLE_REQUIREMENTS
from catalog.iceberg.updates import TABLE_UPDATES
from catalog.iceberg.views import VIEW_UPDATES
from management.management.commands import openapi as command
from management.openapi import documents as openapi
from tests.harness.openapi_documents import built_document
from tests.harness.wsgi_client import call
from tests.management.openapi_shape import Shape, is_open, read_record, read_shape

DONE_WITH_200 = {
    "rename_project",
    "rename_project_by_id_deprecated",
    "update_user",
    "activate_warehouse",
    "deactivate_warehouse",
    "set_warehouse_managed_access",
    "set_namespace_managed_access",
}
"""Operations that return 200 without a body, as in Lakekeeper."""

OPERATION_IDS = {
    "getConfig", "listNamespaces", "createNamespace", "loadNamespaceMetadata", "namespaceExists", "dropNamespace",
    "updateProperties", "listTables", "createTable", "registerTable", "loadTable", "tableExists", "updateTable",
    "dropTable", "renameTable", "reportMetrics", "unregisterTable", "commitTransaction",
    "listViews", "createView", "loadView", "viewExists", "replaceView", "dropView", "renameView", "registerView",
    "loadCredentials", "getToken", "signRequest", "signRequestOfTabular", "signRequestOfStagedTable",
    "signRequestInWarehouse", "signRequestWithoutWarehouse",
}  # fmt: skip
TOKENS = "POST /catalog/v1/oauth/tokens"
"""It has errors of its own form and is not advertised: clients request tokens before the configuration."""


@pytest.fixture(params=openapi.APIS, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def document(name: str) -> openapi.Document:
    return built_document(name)


def operations_of(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, item in content["paths"].items()
        for method, operation in item.items()
    }


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if "$ref" in node else set()
        return own.union(*map(references, node.values()))
    return set().union(*map(references, node)) if isinstance(node, list) else set()


def test_a_document_is_valid_and_nothing_in_it_was_guessed(document: openapi.Document) -> None:
    validate(document.content)
    assert document.complaints == []


def test_a_document_keeps_the_recorded_shape(name: str, document: openapi.Document) -> None:
    """The shape of the management API is equal; those of the catalog APIs may have more facts, never fewer."""
    recorded, shape = read_record()[name], read_shape(document.content)
    lost, gained = differences(recorded, shape), differences(shape, recorded)
    if name != "management":
        lost, gained = [each for each in lost if not is_open(each)], []
    assert (lost, gained) == ([], [])


def differences(one: Shape, other: Shape) -> list[str]:
    """Return the facts that only `one` has."""
    return [
        f"{route} {part} {fact}"
        for route, parts in one.items()
        for part, facts in parts.items()
        for fact in sorted({"exists", *facts} - set(other.get(route, {}).get(part, [])) - _existing(other, route, part))
    ]


def _existing(shape: Shape, route: str, part: str) -> set[str]:
    return {"exists"} if part in shape.get(route, {}) else set()


def test_every_operation_is_described(name: str, document: openapi.Document) -> None:
    tags = {tag["name"] for tag in document.content["tags"]}
    for where, operation in operations_of(document.content).items():
        assert where.split(" ")[1].startswith(f"/{openapi.APIS[name].prefix}v1/")
        assert operation["summary"]
        assert set(operation["tags"]) <= tags
        responses = operation["responses"]
        assert {"400", "408", "500", "503", "4XX", "5XX"} < responses.keys(), where
        assert all(response["description"] for response in responses.values()), where
        assert all(parameter["description"] for parameter in operation.get("parameters", [])), where
        has_body = not where.startswith("HEAD")
        for status, response in responses.items():
            is_empty = status in {"204", "304"} or (status == "200" and operation["operationId"] in DONE_WITH_200)
            assert ("content" in response) == (has_body and not is_empty), (where, status)
            if status >= "4":
                error = "OAuthError" if where == TOKENS else "ErrorEnvelope"
                assert not has_body or references(response) == {f"#/components/schemas/{error}"}


def test_components_are_those_of_this_document_and_all_are_used(document: openapi.Document) -> None:
    components = {f"#/components/schemas/{name}" for name in document.content["components"]["schemas"]}
    assert references(document.content) == components


def test_the_catalog_document_has_the_advertised_operations_and_one_that_is_always_rejected() -> None:
    found = operations_of(built_document("catalog").content)
    served = {where.replace("/catalog/", "/"): operation for where, operation in found.items()}
    refused = {where for where, each in served.items() if not any(status < "4" for status in each["responses"])}
    assert refused == {"POST /v1/aws/s3/sign"}
    untold = {where for where in served if where.endswith("/v1/aws/s3/sign")} | {TOKENS.replace("/catalog/", "/")}
    assert served.keys() - untold == set(ENDPOINTS)
    assert {operation["operationId"] for operation in found.values()} == OPERATION_IDS


def test_the_document_of_generic_tables_has_the_operations_of_lakekeeper() -> None:
    found = operations_of(built_document("generic-tables").content)
    namespace = "/lakekeeper/v1/{prefix}/namespaces/{namespace}/generic-tables"
    assert {where: operation["operationId"] for where, operation in found.items()} == {
        f"GET {namespace}": "list_generic_tables",
        f"POST {namespace}": "create_generic_table",
        f"GET {namespace}/{{table}}": "load_generic_table",
        f"DELETE {namespace}/{{table}}": "drop_generic_table",
        f"GET {namespace}/{{table}}/credentials": "load_generic_table_credentials",
        "POST /lakekeeper/v1/{prefix}/generic-tables/rename": "rename_generic_table",
    }


def test_the_kinds_of_updates_and_requirements_are_those_of_the_engine() -> None:
    components = built_document("catalog").content["components"]["schemas"]
    kinds = {
        name: components[name]["discriminator"]["mapping"].keys()
        for name in ("TableUpdate", "ViewUpdate", "TableRequirement")
    }
    assert kinds == {
        "TableUpdate": TABLE_UPDATES.keys(),
        "ViewUpdate": VIEW_UPDATES.keys(),
        "TableRequirement": TABLE_REQUIREMENTS.keys(),
    }


def test_describing_an_operation_leaves_its_action_as_it_was() -> None:
    assert ConfigViewSet.get_config.__code__.co_filename.endswith("config.py")


def test_the_committed_documents_are_true(name: str, document: openapi.Document) -> None:
    assert json.loads((command.FOLDER / f"{name}.json").read_text()) == document.content
    call_command("openapi", check=True)


def test_the_command_writes_and_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path / "openapi")
    with pytest.raises(CommandError, match=r"management\.json is out of date"):
        call_command("openapi", check=True)
    assert not (tmp_path / "openapi").exists()
    call_command("openapi", stdout=StringIO())
    assert sorted(path.name for path in (tmp_path / "openapi").iterdir()) == [
        "asyncapi.json",
        "catalog.json",
        "generic-tables.json",
        "management.json",
    ]
    (tmp_path / "openapi" / "catalog.json").write_bytes(b"{}")
    with pytest.raises(CommandError, match=r"catalog\.json is out of date"):
        call_command("openapi", check=True)


def test_an_undescribed_operation_fails_the_command_and_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.delattr(ConfigViewSet.get_config, "kwargs")
    with pytest.raises(CommandError, match="unable to guess serializer"):
        call_command("openapi")
    assert not (tmp_path / "catalog.json").exists()
    assert capfd.readouterr().err == ""


@pytest.mark.django_db
def test_a_document_is_built_once_for_all_requests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = call("GET", f"/api-docs/{name}/v1/openapi.json")
    monkeypatch.delattr(openapi, "DocumentGenerator")
    again = call("GET", f"/api-docs/{name}/v1/openapi.json")
    assert (first.status, again.status) == (200, 200)
    assert first.json() == again.json() == json.loads((command.FOLDER / f"{name}.json").read_text())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("/swagger-ui", "Icekeeper management API"),
        ("/swagger-ui/catalog", "Icekeeper Iceberg REST catalog"),
        ("/swagger-ui/generic-tables", "Icekeeper generic tables"),
    ],
)
def test_swagger_ui_offers_all_documents(page: str, title: str) -> None:
    text = call("GET", page).body.decode()
    assert f'"urls.primaryName": "{title}"' in text
    for name in openapi.APIS:
        assert f'"url":"/api-docs/{name}/v1/openapi.json"' in text
    assert "SwaggerUIStandalonePreset" in text
