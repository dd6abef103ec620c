"""Validate responses against Lakekeeper's OpenAPI documents as strict clients do: unknown members are errors.

`lakekeeper_responses.json` holds the JSON schemas of all responses of both documents, without texts. Write it with

    python -m tests.management.lakekeeper_responses FOLDER

where FOLDER has `lakekeeper-management.yaml` and `lakekeeper-generic-table.yaml`.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from openapi_schema_validator import oas30_format_checker

SCHEMAS: Final = Path(__file__).with_name("lakekeeper_responses.json")
DOCUMENTS: Final = {"management": "lakekeeper-management.yaml", "generic-tables": "lakekeeper-generic-table.yaml"}
"""Our names of the documents, and their files."""

METHODS: Final = {"get", "put", "post", "delete", "patch"}
COMPOSITIONS: Final = ("allOf", "anyOf", "oneOf")
FACTS: Final = {"type", "enum", "const", "format", "default", "required", "propertyNames"}
"""The keywords that are kept as they are."""

Schema = dict[str, Any]


def extract_schemas(document: Schema) -> Schema:
    """Return the schemas of a document's responses by operation and status, and the shared ones that they refer to.

    An operation is named by its method and path with `{}` for each parameter. A response without a body is null.
    """
    shared: Schema = {}

    def keep(schema: Schema) -> Schema:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in shared:
                shared[name] = None  # it may refer to itself
                shared[name] = keep(document["components"]["schemas"][name])
            return {"$ref": f"#/schemas/{name}"}
        kept = {key: value for key, value in schema.items() if key in FACTS}
        if "properties" in schema:
            kept["properties"] = {name: keep(each) for name, each in schema["properties"].items()}
        for key in ("items", "additionalProperties"):
            if key in schema:
                kept[key] = keep(schema[key]) if isinstance(schema[key], dict) else schema[key]
        for key in COMPOSITIONS:
            if key in schema:
                kept[key] = [keep(each) for each in schema[key]]
        return kept

    operations = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                bodies = {
                    str(status): response.get("content", {}).get("application/json", {}).get("schema")
                    for status, response in operation["responses"].items()
                }
                operations[f"{method.upper()} {re.sub('{[^}]*}', '{}', path)}"] = {
                    status: None if schema is None else keep(schema) for status, schema in bodies.items()
                }
    return {"operations": operations, "schemas": shared}


def extract_folder(folder: Path) -> Schema:
    return {name: extract_schemas(yaml.safe_load((folder / file).read_text())) for name, file in DOCUMENTS.items()}


@cache
def read_schemas() -> Schema:
    schemas: Schema = json.loads(SCHEMAS.read_text())
    return schemas


def is_described(document: str, operation: str) -> bool:
    return operation in read_schemas()[document]["operations"]


def differences(document: str, operation: str, status: int, body: Any) -> list[str]:
    """Return the validator's messages about how a response differs from Lakekeeper's document.

    Errors with an undocumented status must have the common envelope. `body` is None for an empty body.
    """
    responses = read_schemas()[document]["operations"][operation]
    key = str(status) if str(status) in responses else f"{str(status)[0]}XX"
    if key not in responses and status < 400:
        return [f"the status {status} is not described"]
    schema = responses.get(key, {"$ref": "#/schemas/IcebergErrorResponse"})
    if schema is None:
        return [] if body is None else ["a body where none is described"]
    return [text for error in _validator(document, json.dumps(schema)).iter_errors(body) for text in _texts(error)]


def _texts(error: ValidationError) -> list[str]:
    """Return one line per error, which is the best match if all alternatives fail."""
    if error.context:
        branches: dict[Any, list[ValidationError]] = {}
        for each in error.context:
            branches.setdefault(each.relative_schema_path[0], []).append(each)
        nearest = min(branches.values(), key=lambda errors: (any(_is_choice(each) for each in errors), len(errors)))
        return [text for each in nearest for text in _texts(each)]
    return [f"{error.json_path}: {error.message}"]


def _is_choice(error: ValidationError) -> bool:
    """Return whether the error reports that another alternative was meant."""
    return error.validator in {"enum", "const", "type"} or any(_is_choice(each) for each in error.context or [])


@cache
def _validator(document: str, schema: str) -> Draft202012Validator:
    closed = _Closing(read_schemas()[document]["schemas"]).close(json.loads(schema))
    return Draft202012Validator(closed, format_checker=oas30_format_checker)


class _Closing:
    """Forbid members that a schema does not name. References are inlined: no response refers to itself."""

    def __init__(self, shared: Schema) -> None:
        self._shared = shared

    def close(self, schema: Schema) -> Schema:
        """Close the schema of one value: merge its parts (`allOf`) and forbid members that none of them names."""
        schema = self._resolved(schema)
        alternatives = [key for key in ("anyOf", "oneOf") if key in schema]
        if alternatives and not schema.keys() & {"properties", "allOf"}:
            return {**schema, **{key: [self.close(each) for each in schema[key]] for key in alternatives}}
        closed = self._part(schema)
        has_members = "properties" in schema or schema.keys() & set(COMPOSITIONS)
        return (
            closed | {"unevaluatedProperties": False}
            if has_members and "additionalProperties" not in schema
            else closed
        )

    def _part(self, schema: Schema) -> Schema:
        schema = dict(self._resolved(schema))
        if "properties" in schema:
            schema["properties"] = {name: self.close(each) for name, each in schema["properties"].items()}
            if "project-id" in schema["properties"]:  # documented as a UUID in places, although any name is valid
                schema["properties"]["project-id"].pop("format", None)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                schema[key] = self.close(schema[key])
        for key in COMPOSITIONS:
            if key in schema:
                schema[key] = [self._part(each) for each in schema[key]]
        return schema

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._shared[schema["$ref"].rpartition("/")[2]]
        return schema


def main(folder: str) -> None:
    """Write one line per operation and per shared schema."""
    lines = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(
            f"{json.dumps(part)}: {{\n"
            + ",\n".join(
                f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in sorted(each.items())
            )
            + "\n}"
            for part, each in schemas.items()
        )
        + "\n}"
        for name, schemas in extract_folder(Path(folder)).items()
    ]
    SCHEMAS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
