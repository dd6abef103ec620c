"""The definition of rights (`tenancy.authz.model`) as OpenFGA takes it: the JSON of an authorization model.

https://openfga.dev/api/service#/Authorization%20Models/WriteAuthorizationModel
"""

from __future__ import annotations

from typing import Any, Final

from tenancy.authz.model import (
    GRANTEES,
    Computed,
    Direct,
    Exclusion,
    Expression,
    Intersection,
    Linked,
    Model,
    Union,
    parts_of,
)

UNEXPIRED: Final = "unexpired"
"""The condition of a grant that ends. Whoever asks says what time it is, as our own evaluator does."""

CURRENT_TIME, EXPIRES_AT = "current_time", "expires_at"

_CONDITION: Final = {
    "name": UNEXPIRED,
    "expression": f"{CURRENT_TIME} < {EXPIRES_AT}",
    "parameters": {each: {"type_name": "TYPE_NAME_TIMESTAMP"} for each in (CURRENT_TIME, EXPIRES_AT)},
}


def authorization_model(model: Model, name: str) -> dict[str, Any]:
    """`model` with one more type that is called `name` and has nothing: it tells which model a store has."""
    types = [_type_definition(each, relations) for each, relations in model.types.items()]
    return {
        "schema_version": "1.1",
        "type_definitions": [*types, {"type": name}],
        "conditions": {UNEXPIRED: _CONDITION},
    }


def _type_definition(name: str, relations: Any) -> dict[str, Any]:
    if not relations:
        return {"type": name}
    granted = {
        relation: {"directly_related_user_types": types}
        for relation, expression in relations.items()
        if (types := [each for part in parts_of(expression) for each in _related_types(part)])
    }
    return {
        "type": name,
        "relations": {relation: _userset(expression) for relation, expression in relations.items()},
        "metadata": {"relations": granted},
    }


def _related_types(part: Expression) -> list[dict[str, Any]]:
    """What may stand in tuples; what can be granted may also be granted for a time."""
    if not isinstance(part, Direct):
        return []
    related = [_related_type(each) for each in part.types]
    return [each | {"condition": UNEXPIRED} for each in related] if part.types == GRANTEES else related


def _related_type(text: str) -> dict[str, Any]:
    """Of `table`, `role#assignee` or `user:*`."""
    if text.endswith(":*"):
        return {"type": text.removesuffix(":*"), "wildcard": {}}
    name, _, relation = text.partition("#")
    return {"type": name, "relation": relation} if relation else {"type": name}


def _userset(expression: Expression) -> dict[str, Any]:
    match expression:
        case Direct():
            return {"this": {}}
        case Computed(relation):
            return {"computedUserset": {"relation": relation}}
        case Linked(relation, link):
            return {"tupleToUserset": {"tupleset": {"relation": link}, "computedUserset": {"relation": relation}}}
        case Union(parts):
            return {"union": {"child": [_userset(part) for part in parts]}}
        case Intersection(parts):
            return {"intersection": {"child": [_userset(part) for part in parts]}}
        case Exclusion(base, minus):
            return {"difference": {"base": _userset(base), "subtract": _userset(minus)}}
