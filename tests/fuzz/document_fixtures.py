"""The OpenAPI documents that requests are generated from: that of the Iceberg REST specification, and our own.
`iceberg-rest-catalog.yaml` is an unchanged copy of `open-api/rest-catalog-open-api.yaml` of Apache Iceberg (Apache
License 2.0, with its header), from its development tree after release 1.11.0.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Final

import schemathesis
import yaml
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema

from icekeeper.kernel.errors.types import CatalogError
from management.openapi.documents import APIS
from storage.documents import InvalidMember

HERE: Final = Path(__file__).parent
OWN: Final = HERE.parents[1] / "docs" / "openapi"
SPECIFICATION: Final = "specification"
OWN_NAMES: Final = sorted(APIS)
NAMES: Final = [SPECIFICATION, *OWN_NAMES]


@cache
def load(name: str) -> BaseSchema:
    if name == SPECIFICATION:
        document, base = yaml.safe_load((HERE / "iceberg-rest-catalog.yaml").read_text()), "/catalog"
        # Tables of version 3 without a snapshot have null there in Iceberg's Java, which the specification lacks.
        metadata = document["components"]["schemas"]["TableMetadata"]["properties"]
        metadata["current-snapshot-id"]["type"] = ["integer", "null"]
    else:
        document, base = json.loads((OWN / f"{name}.json").read_text()), ""
    return schemathesis.openapi.from_dict(document | {"servers": [{"url": f"http://testserver{base}"}]})


@cache
def operations(name: str) -> list[APIOperation]:
    found = []
    for result in load(name).get_all_operations():
        assert isinstance(result, Ok), result
        found.append(result.ok())
    return found


# --- error responses in our own documents
# -------------------------------------------------------------------------------


def _members(error: type[CatalogError]) -> set[type[CatalogError]]:
    return {error}.union(*(_members(each) for each in error.__subclasses__()))


@cache
def wire_types() -> set[tuple[int, str]]:
    """Return every status with every type that the error tree defines for it."""
    of_members = {(InvalidMember.status, wire_type) for wire_type in InvalidMember.wire_types.values()}
    return of_members | {(error.status, error.wire_type) for error in _members(CatalogError)}


@cache
def _errors() -> dict[tuple[str, str], dict[int, set[str]]]:
    """By method and path: by status, the types in the descriptions of that response and of parameters (400)."""
    found = {}
    for name in OWN_NAMES:
        for path, methods in json.loads((OWN / f"{name}.json").read_text())["paths"].items():
            for method, operation in methods.items():
                types = {
                    int(status): set(re.findall(r"`([\w-]+)`", response["description"]))
                    for status, response in operation["responses"].items()
                    if status.isdigit() and status >= "400"
                }
                for parameter in operation.get("parameters", []):
                    types[400] |= set(re.findall(r"`([\w-]+)`", parameter.get("description", "")))
                found[method.upper(), path] = types
    return found


def documented_types(method: str, path: str, status: int) -> set[str] | None:
    """Return the types that our document names for this error; None when it lacks the operation or the status."""
    return _errors().get((method.upper(), path), {}).get(status)


def serves(operation: APIOperation) -> bool:
    """Whether this server implements the operation; the specification has more."""
    return is_served(operation.method, operation.schema.base_path.rstrip("/") + operation.path)


def is_served(method: str, path: str) -> bool:
    return (method.upper(), path) in _errors()
