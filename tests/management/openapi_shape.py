"""Shape of an OpenAPI document: the facts that clients depend on, for comparison of two versions.

`openapi_shapes.json` contains the shapes that the documents must keep. It changes on purpose only; record it from the
documents of any revision with

    for name in management catalog generic-tables; do
        git show REVISION:docs/openapi/$name.json > /tmp/openapi/$name.json; done
    python -m tests.management.openapi_shape /tmp/openapi
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("openapi_shapes.json")
TEXTS = {"description", "title", "summary", "example", "examples", "externalDocs"}
STRUCTURE = {"$ref", "type", "nullable", "properties", "required", "items", "additionalProperties", "allOf"}
ALTERNATIVES = ("oneOf", "anyOf")

Schema = dict[str, Any]
Facts = list[str]
Shape = dict[str, dict[str, Facts]]
"""By `METHOD /path`, then by part: `operation`, `parameters`, `request`, or a status."""


def read_shape(document: Schema) -> Shape:
    """Return the shape of a document, without component names, texts and order."""
    reader = _Reader(document)
    return {
        f"{method.upper()} {path}": reader.operation(operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


class _Reader:
    def __init__(self, document: Schema) -> None:
        self._document = document

    def operation(self, operation: Schema) -> dict[str, Facts]:
        own = [
            f"{key} {_text(operation[key])}" for key in ("operationId", "deprecated", "security") if key in operation
        ]
        parts = {"operation": own, "parameters": sorted(self._parameters(operation.get("parameters", []), ""))}
        if "requestBody" in operation:
            parts["request"] = self._body(operation["requestBody"])
        return parts | {status: self._body(response) for status, response in operation["responses"].items()}

    def _parameters(self, parameters: list[Schema], path: str) -> Iterator[str]:
        for each in parameters:
            name = f"{path}{each['in']} {each['name']}"
            yield f"{name} {'required' if each.get('required') else 'optional'}"
            yield from self._schema(each["schema"], name, ())
            yield from (f"{name} {key} {_text(each[key])}" for key in ("style", "explode") if key in each)

    def _body(self, body: Schema) -> Facts:
        found = [f"required {body['required']}"] if "required" in body else []
        for name, header in body.get("headers", {}).items():
            found += self._schema(header["schema"], f"header {name}", ())
        for media, content in body.get("content", {}).items():
            found.append(media)
            found += self._schema(content["schema"], "", ())
        return sorted(set(found))

    def _schema(self, schema: Schema, path: str, within: tuple[str, ...]) -> Iterator[str]:
        if "$ref" in schema:
            name = schema["$ref"]
            if name in within:
                yield f"{path} contains itself"
                return
            within, schema = (*within, name), self._resolve(name)
        yield from self._own_facts(schema, path)
        for name, member in schema.get("properties", {}).items():
            yield f"{path}.{name} member"
            yield from self._schema(member, f"{path}.{name}", within)
        if "items" in schema:
            yield from self._schema(schema["items"], f"{path}[]", within)
        if isinstance(schema.get("additionalProperties"), dict):
            yield from self._schema(schema["additionalProperties"], f"{path}.*", within)
        for part in schema.get("allOf", []):
            yield from self._schema(part, path, within)
        for key in ALTERNATIVES:
            for part in schema.get(key, []):
                facts = sorted(set(self._schema(part, path, within)))
                yield from facts
                yield f"{path} {key} {_digest(facts)}"

    @staticmethod
    def _own_facts(schema: Schema, path: str) -> Iterator[str]:
        kinds = schema.get("type", [])
        yield from (f"{path} is {kind}" for kind in ([kinds] if isinstance(kinds, str) else kinds))
        if schema.get("nullable"):
            yield f"{path} is null"
        for key in schema.keys() - STRUCTURE - TEXTS - {*ALTERNATIVES, "enum", "discriminator"}:
            yield f"{path} {key} {_text(schema[key])}"
        yield from (f"{path} enum {_text(value)}" for value in schema.get("enum", []))
        if "discriminator" in schema:
            known = schema["discriminator"]
            yield f"{path} discriminator {known['propertyName']} {_text(sorted(known.get('mapping', {})))}"
        yield from (f"{path}.{name} required" for name in schema.get("required", []))
        if "additionalProperties" in schema:
            yield f"{path} additional {_text(schema['additionalProperties'] is not False)}"

    def _resolve(self, name: str) -> Schema:
        target: Any = self._document
        for step in name.removeprefix("#/").split("/"):
            target = target[step]
        found: Schema = target
        return found


def is_open(fact: str) -> bool:
    """Return whether the fact lists alternatives or additional members, which a document may extend."""
    words = fact.split(" ")
    return len(words) > 1 and words[-2] in {*ALTERNATIVES, "additional"}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(facts: Facts) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def read_record() -> dict[str, Shape]:
    record = json.loads(RECORD.read_text())
    facts = record["facts"]
    return {
        name: {route: {part: facts[key] for part, key in parts.items()} for route, parts in shape.items()}
        for name, shape in record["documents"].items()
    }


def main(folder: Path) -> None:
    """Record the shapes of the documents in `folder`; equal parts are written once."""
    facts: dict[str, Facts] = {}
    documents: dict[str, dict[str, dict[str, str]]] = {}
    for path in sorted(folder.glob("*.json")):
        shape = read_shape(json.loads(path.read_text()))
        facts |= {_digest(each): each for parts in shape.values() for each in parts.values()}
        documents[path.stem] = {
            route: {part: _digest(each) for part, each in parts.items()} for route, parts in sorted(shape.items())
        }
    lines = [f'"documents": {_lines(documents)}', f'"facts": {_lines(dict(sorted(facts.items())))}']
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _lines(members: dict[str, Any]) -> str:
    """Yield one line per operation and per list of facts."""
    parts = []
    for name, value in members.items():
        is_document = isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())
        parts.append(f"{_text(name)}: {_lines(value) if is_document else json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
