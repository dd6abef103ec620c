"""Digest of an OpenAPI document: the facts that clients depend on, for comparison with another document.

`lakekeeper_management_api.json` is the digest of Lakekeeper 0.13, extracted from its document with

    python -m tests.management.api_digest lakekeeper-management.yaml
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

LAKEKEEPER = Path(__file__).with_name("lakekeeper_management_api.json")
METHODS = {"get", "put", "post", "delete", "patch"}

Schema = dict[str, Any]


@dataclass
class Body:
    """An object by the dotted paths of its members; `[]` is a list item, `*` a member of any name.

    `members` maps each to its fixed values, empty if it may have others. Alternatives (`oneOf`) are merged, and
    `required` lists the members that all of them require. `types` are JSON types, with `null` where it is allowed, and
    empty where any type is; `defaults` are JSON texts.
    """

    members: dict[str, list[str]] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    types: dict[str, list[str]] = field(default_factory=dict)
    defaults: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Operation:
    """`parameters` are `in name`, without those in the path; `responses` are successful response bodies by status."""

    parameters: list[str]
    request: Body
    responses: dict[str, Body]


Digest = dict[str, Operation]
"""By method and path, with `{}` for each parameter, whose name no client sees."""


def digest(document: Schema) -> Digest:
    reader = _Reader(document)
    return {
        f"{method.upper()} {re.sub('{[^}]*}', '{}', path)}": reader.operation(operation, item.get("parameters", []))
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def read_lakekeeper() -> Digest:
    return {
        name: Operation(
            known["parameters"],
            Body(**known["request"]),
            {status: Body(**body) for status, body in known["responses"].items()},
        )
        for name, known in json.loads(LAKEKEEPER.read_text()).items()
    }


class _Reader:
    def __init__(self, document: Schema) -> None:
        self._document = document

    def operation(self, operation: Schema, shared: list[Schema]) -> Operation:
        parameters = [self._resolved(each) for each in [*shared, *operation.get("parameters", [])]]
        responses = operation["responses"]
        return Operation(
            parameters=sorted(f"{each['in']} {each['name']}" for each in parameters if each["in"] != "path"),
            request=self._body(self._resolved(operation.get("requestBody", {}))),
            responses={
                str(status): self._body(self._resolved(responses[status]))
                for status in sorted(responses, key=str)
                if str(status).startswith("2")
            },
        )

    def _body(self, holder: Schema) -> Body:
        content = holder.get("content", {}).get("application/json", {}).get("schema")
        body = Body()
        for path, is_required, values, shape in self._members(content or {}, "", is_required=True, within=()):
            # Alternatives are merged: members that only some of them require are optional.
            known = body.members.setdefault(path, [])
            known.extend(value for value in values if value not in known)
            if is_required and path not in body.required:
                body.required.append(path)
            for facts, found in ((body.types, self._types(shape)), (body.defaults, self._defaults(shape))):
                facts[path] = sorted({*facts.get(path, []), *found})
        return Body(
            {path: sorted(body.members[path]) for path in sorted(body.members)},
            sorted(body.required),
            {path: body.types[path] for path in sorted(body.types) if body.types[path]},
            {path: body.defaults[path] for path in sorted(body.defaults) if body.defaults[path]},
        )

    def _members(
        self, schema: Schema, path: str, *, is_required: bool, within: tuple[str, ...]
    ) -> Iterator[tuple[str, bool, list[str], Schema]]:
        """Yield each member of `schema` at `path`: whether it is required, its fixed values and its schema."""
        name = schema.get("$ref")
        if name in within:
            return  # recursive schema
        if name is not None:
            within = (*within, name)
        schema = self._resolved(schema)
        alternatives = [self._resolved(each) for each in schema.get("oneOf", []) + schema.get("anyOf", [])]
        real = [(each, ref) for each, ref in zip(alternatives, self._names(schema), strict=True) if not _is_null(each)]
        always = set.intersection(*(self._always(each) for each, _ in real)) if real else set()
        for each, ref in real:
            inner = (*within, ref) if ref else within
            if ref in within:
                continue
            members = self._members(each, path, is_required=is_required, within=inner)
            for found, is_inner_required, values, shape in members:
                name_below = found.removeprefix(path).removeprefix(".").split(".")[0].split("[")[0]
                yield found, is_inner_required and name_below in always, values, shape
        for part in schema.get("allOf", []):
            yield from self._members(part, path, is_required=is_required, within=within)
        required = set(schema.get("required", []))
        for member, shape in schema.get("properties", {}).items():
            at = f"{path}.{member}" if path else member
            must = is_required and member in required
            yield at, must, self._values(shape), shape
            yield from self._members(shape, at, is_required=must, within=within)
        if isinstance(schema.get("items"), dict):
            yield from self._members(schema["items"], f"{path}[]", is_required=is_required, within=within)
        if isinstance(schema.get("additionalProperties"), dict):
            yield from self._members(schema["additionalProperties"], f"{path}.*", is_required=False, within=within)

    @staticmethod
    def _names(schema: Schema) -> list[str | None]:
        return [each.get("$ref") for each in schema.get("oneOf", []) + schema.get("anyOf", [])]

    def _always(self, schema: Schema) -> set[str]:
        """Return the members that every object of `schema` has."""
        schema = self._resolved(schema)
        alternatives = [each for each in schema.get("oneOf", []) + schema.get("anyOf", []) if not _is_null(each)]
        found = set(schema.get("required", []))
        if alternatives:
            found |= set.intersection(*(self._always(each) for each in alternatives))
        return found.union(*(self._always(part) for part in schema.get("allOf", [])))

    def _values(self, schema: Schema) -> list[str]:
        """Return the fixed values of a string, also if it is nullable or a list item."""
        schema = self._resolved(schema)
        if isinstance(schema.get("items"), dict):
            return self._values(schema["items"])
        found = [value for value in schema.get("enum", []) if isinstance(value, str)]
        if isinstance(schema.get("const"), str):
            found.append(schema["const"])
        for part in schema.get("oneOf", []) + schema.get("anyOf", []) + schema.get("allOf", []):
            found += [value for value in self._values(part) if value not in found]
        return found

    def _types(self, schema: Schema) -> set[str]:
        schema = self._resolved(schema)
        given = schema.get("type", [])
        found = set(given if isinstance(given, list) else [given])
        if schema.get("nullable"):
            found.add("null")
        for part in schema.get("oneOf", []) + schema.get("anyOf", []) + schema.get("allOf", []):
            found |= self._types(part)
        return found

    def _defaults(self, schema: Schema) -> set[str]:
        own = {json.dumps(schema["default"], sort_keys=True)} if "default" in schema else set()
        target = self._resolved(schema)
        if "default" in target:
            own.add(json.dumps(target["default"], sort_keys=True))
        return own.union(*(self._defaults(part) for part in target.get("oneOf", []) + target.get("allOf", [])))

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            target: Any = self._document
            for step in schema["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            schema = target
        return schema


def _is_null(schema: Schema) -> bool:
    return schema.get("type") == "null" or schema.get("enum") == [None]


def main(path: str) -> None:
    """Write one line per operation."""
    document = yaml.safe_load(Path(path).read_text())
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(each))}" for name, each in sorted(digest(document).items())]
    LAKEKEEPER.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
