"""Every operation and schema in the OpenAPI documents has an example, and each example matches its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator, oas30_format_checker

from management.openapi import documents as openapi
from management.openapi import examples as openapi_examples
from management.openapi.examples import Exchanges, add_examples, read_exchanges
from tests.harness.openapi_documents import built_document

Schema = dict[str, Any]

# --- validation of examples -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare() -> Callable[[str], Schema]:
    """Return a document by name, without its examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openapi, "add_examples", lambda content, exchanges: [])
        contents = {name: openapi.build_document(name).content for name in openapi.APIS}
    return lambda name: deepcopy(contents[name])


def examples_of(media: Schema) -> list[Any]:
    several = [each["value"] for each in media.get("examples", {}).values()]
    return [media["example"], *several] if "example" in media else several


def shown(content: Schema) -> Iterator[tuple[str, Any, Schema, Any]]:
    """Yield every example: its name, value, schema, and the validator for its direction."""
    for item in content["paths"].values():
        for operation in item.values():
            where = operation["operationId"]
            for each in operation.get("parameters", []):
                if "example" in each:
                    yield f"{where} {each['name']}", each["example"], each["schema"], OAS30WriteValidator
            bodies = {"request": (operation.get("requestBody", {}), OAS30WriteValidator)}
            bodies |= {status: (response, OAS30ReadValidator) for status, response in operation["responses"].items()}
            for name, (body, validator) in bodies.items():
                for media in body.get("content", {}).values():
                    for value in examples_of(media):
                        yield f"{where} {name}", value, media["schema"], validator
    for name, schema in content["components"]["schemas"].items():
        if "example" in schema:
            yield name, schema["example"], schema, OAS30ReadValidator


NULL: Schema = {"type": "object", "nullable": True, "enum": [None]}


def closed(schema: Any) -> Any:
    """Forbid members that a schema does not describe, unless it allows additional ones.

    `nullable` next to `allOf` or `oneOf` is read as most tools do; OpenAPI gives it no meaning there.
    """
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: value if key == "example" else closed(value) for key, value in schema.items()}
    if isinstance(own.get("properties"), dict):
        own.setdefault("additionalProperties", False)
    return {"anyOf": [own, NULL]} if own.get("nullable") and "type" not in own else own


def misfits(content: Schema) -> list[str]:
    """List the examples in a document that do not match their schemas."""
    components = {"schemas": closed(content["components"]["schemas"])}
    found = []
    for where, value, schema, validator in shown(content):
        checker = validator({**closed(schema), "components": components}, format_checker=oas30_format_checker)
        found += [f"{where}: {error.json_path} {error.message}" for error in checker.iter_errors(value)]
    return found


# --- the committed examples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", openapi.APIS)
def test_everything_has_an_example_that_fits(name: str) -> None:
    document = built_document(name)
    assert document.complaints == []
    assert misfits(document.content) == []
    errors = {"ErrorEnvelope", "OAuthError"} & document.content["components"]["schemas"].keys()
    assert all("example" in document.content["components"]["schemas"][each] for each in errors)


@pytest.mark.parametrize("name", openapi.APIS)
def test_optional_parameters_of_write_operations_have_no_example(name: str) -> None:
    for item in built_document(name).content["paths"].values():
        for method, operation in item.items():
            for each in operation.get("parameters", []):
                assert "example" not in each or each.get("required") or method in {"get", "head"}, each["name"]


def test_every_kind_of_storage_is_shown() -> None:
    operation = built_document("management").content["paths"]["/management/v1/warehouse"]["post"]
    examples = operation["requestBody"]["content"]["application/json"]["examples"]
    kinds = {each["value"]["storage-profile"]["type"] for each in examples.values()}
    assert kinds == {"s3", "stackit", "adls", "onelake", "gcs", "local"}
    assert examples["on-s3-with-an-access-key"]["summary"] == "On S3, with an access key"
    assert operation["responses"]["201"]["content"]["application/json"]["examples"].keys() == examples.keys()


# --- detection of wrong examples --------------------------------------------------------------------------------------


def changed(operation_id: str, **members: Any) -> Callable[[Exchanges], None]:
    def change(exchanges: Exchanges) -> None:
        for each in exchanges[operation_id]:
            each.update(members)  # type: ignore[typeddict-item]

    return change


def renamed(operation_id: str, other: str) -> Callable[[Exchanges], None]:
    def change(exchanges: Exchanges) -> None:
        exchanges[other] = exchanges.pop(operation_id)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            renamed("rename_project", "rename_projects"),
            {
                "rename_project: no example of the request",
                "rename_projects: examples of an unknown operation",
            },
        ),
        (changed("get_role", parameters={}), {"get_role: no example of the parameter role_id"}),
        (
            changed("whoami", status=206),
            {
                "whoami: no example of the response 200",
                "whoami: an example of the response 206, which is not described",
            },
        ),
        (lambda exchanges: exchanges["create_user"].pop(), {"create_user: no example of the response 200"}),
        (changed("create_role", summary=None), {"create_role: 2 examples of the response 201 are called ''"}),
    ],
)
def test_missing_or_unexpected_members_are_reported(
    bare: Callable[[str], Schema], change: Callable[[Exchanges], Any], expected: set[str]
) -> None:
    exchanges = read_exchanges("management")
    change(exchanges)
    assert set(add_examples(bare("management"), exchanges)) == expected


def test_every_operation_would_be_missed(bare: Callable[[str], Schema]) -> None:
    content = bare("management")
    complaints = add_examples(content, {})
    missed = {each.split(":")[0] for each in complaints}
    everything = {each["operationId"] for item in content["paths"].values() for each in item.values()}
    assert everything - missed == {"delete_project"}, "it has neither a body nor a required parameter"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (changed("get_role", parameters={"role_id": "analysts"}), "get_role role_id: $ 'analysts' is not a 'uuid'"),
        (changed("create_project", request={"project-id": "a"}), "'project-name' is a required property"),
        (changed("create_project", request={"project-name": 7}), "7 is not of type 'string'"),
        (changed("create_project", request={"project-name": "a", "x": 1}), "'x' was unexpected"),
        (changed("create_project", response={"project-id": None}), "create_project 201: $['project-id'] None for not"),
        (changed("get_table_protection", response={"protected": True, "updated_at": "now"}), "is not a 'date-time'"),
        (changed("get_warehouse", response={}), "'storage-profile' is a required property"),
        (changed("set_table_protection", request=None), "None for not nullable"),
    ],
)
def test_an_example_that_does_not_fit_is_found_out(
    bare: Callable[[str], Schema], change: Callable[[Exchanges], Any], text: str
) -> None:
    content, exchanges = bare("management"), read_exchanges("management")
    change(exchanges)
    assert add_examples(content, exchanges) == []
    found = misfits(content)
    assert any(text in each for each in found), found


def test_the_command_fails_where_an_example_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in openapi.APIS:
        (tmp_path / f"{name}.json").write_text("{}")
    monkeypatch.setattr(openapi_examples, "FOLDER", tmp_path)
    with pytest.raises(CommandError, match="whoami: no example of the response 200"):
        call_command("openapi", check=True, stdout=StringIO())
