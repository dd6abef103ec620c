"""Shapes of JSON bodies generate the schemas of an OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from icekeeper.kernel.json.shapes import (
    Body,
    Keywords,
    Long,
    NamedUnion,
    Schema,
    TaggedUnion,
    Uuid,
    body_schema,
    type_schema,
)


class Leaf(TypedDict):
    """A leaf."""

    name: str
    size: NotRequired[Long]


TreeDocument = TypedDict("TreeDocument", {"left-leaf": Leaf, "others": NotRequired[list[Leaf | None]]})


def refer(body: Body) -> Schema:
    return {"$ref": f"#/components/schemas/{body.name}"}


LEAF = {"$ref": "#/components/schemas/Leaf"}


def test_a_typed_dict() -> None:
    assert body_schema(Leaf, refer) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "format": "int64"}},
        "required": ["name"],
        "description": "A leaf.",
    }


def test_members_with_other_names_and_a_document() -> None:
    assert Body.of(TreeDocument).name == "Tree"
    assert body_schema(TreeDocument, refer) == {
        "type": "object",
        "properties": {
            "left-leaf": LEAF,
            "others": {"type": "array", "items": {"allOf": [LEAF], "nullable": True}},
        },
        "required": ["left-leaf"],
    }


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Any, {}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (Uuid, {"type": "string", "format": "uuid"}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1], {"type": "integer", "enum": [1]}),
        (Literal["a"] | None, {"type": "string", "enum": ["a", None], "nullable": True}),
        (Annotated[Leaf, "The first"], {"allOf": [LEAF], "description": "The first"}),
        (Annotated[str, "A", Keywords(pattern="^a")], {"type": "string", "description": "A", "pattern": "^a"}),
        (bool | Leaf, {"oneOf": [{"type": "boolean"}, LEAF]}),
        (
            Annotated[Any, NamedUnion("Node", lambda: (str, Leaf))],
            {"$ref": "#/components/schemas/Node"},
        ),
    ],
)
def test_a_type(kind: Any, schema: Schema) -> None:
    assert type_schema(kind, refer) == schema


def test_a_union_by_a_tag() -> None:
    union = TaggedUnion("Change", "action", {"set-size": {"size": int}, "clear": {}}, suffix="Change")
    seen: list[Body] = []

    def refer_and_keep(body: Body) -> Schema:
        seen.append(body)
        return refer(body)

    names = {"set-size": "#/components/schemas/SetSizeChange", "clear": "#/components/schemas/ClearChange"}
    assert body_schema(union, refer_and_keep) == {
        "required": ["action"],
        "oneOf": [{"$ref": name} for name in names.values()],
        "discriminator": {"propertyName": "action", "mapping": names},
    }
    assert body_schema(seen[0].shape, refer) == {
        "type": "object",
        "properties": {"action": {"type": "string", "enum": ["set-size"]}, "size": {"type": "integer"}},
        "required": ["action", "size"],
    }


def test_a_union_with_a_name() -> None:
    union = NamedUnion("Node", lambda: (str, Leaf))
    assert body_schema(union, refer) == {"oneOf": [{"type": "string"}, LEAF]}


def test_types_without_json_form() -> None:
    with pytest.raises(TypeError, match="no JSON schema for"):
        type_schema(bytes, refer)
