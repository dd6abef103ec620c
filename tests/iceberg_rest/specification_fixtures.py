"""Facts of the Iceberg REST specification about the operations that the catalog serves.

`specification.json` lists parameters, members, types and required members. They are extracted from the
specification's OpenAPI document with
`python -m tests.iceberg_rest.specification_fixtures iceberg-rest-catalog.yaml`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from catalog.api.config import ENDPOINTS
from tests.management.api_digest import Body, Digest, Operation, digest

RECORD = Path(__file__).with_name("specification.json")
TOKENS = "POST /v1/oauth/tokens"
SERVED = {re.sub("{[^}]*}", "{}", each) for each in [*ENDPOINTS, TOKENS] if not each.startswith("HEAD ")}
"""As a digest names them; HEAD has neither parameters of its own nor bodies."""


def read_specification() -> Digest:
    record = json.loads(RECORD.read_text())
    bodies = {key: _body(facts) for key, facts in record["bodies"].items()}
    return {
        route: Operation(
            known["parameters"],
            bodies[known["request"]],
            {status: bodies[key] for status, key in known["responses"].items()},
        )
        for route, known in record["operations"].items()
    }


def _body(facts: dict[str, str]) -> Body:
    """Return `required` or `optional` and the types of each member, by its path."""
    words = {path: text.split(" ") for path, text in facts.items()}
    return Body(
        members={path: [] for path in facts},
        required=[path for path, (first, *_) in words.items() if first == "required"],
        types={path: types for path, (_, *types) in words.items() if types},
    )


def _facts(body: Body) -> dict[str, str]:
    return {
        path: " ".join(["required" if path in body.required else "optional", *body.types.get(path, [])])
        for path in body.members
        if not path.startswith("filter.")
    }


def _key(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def _lines(members: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(members[name])}" for name in sorted(members)) + "\n}"


def main(path: str) -> None:
    """Write one line per operation and per body; equal bodies are written once."""
    bodies: dict[str, dict[str, str]] = {}

    def keep(body: Body) -> str:
        facts = _facts(body)
        bodies[_key(facts)] = facts
        return _key(facts)

    operations = {
        route: asdict(operation)
        | {
            "request": keep(operation.request),
            "responses": {status: keep(body) for status, body in operation.responses.items()},
        }
        for route, operation in digest(yaml.safe_load(Path(path).read_text())).items()
        if route in SERVED
    }
    RECORD.write_text('{\n"operations": ' + _lines(operations) + ',\n"bodies": ' + _lines(bodies) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
