"""JSON bodies declared as Python types (`TypedDict`, `Literal`, `Annotated` and the like), and their OpenAPI schemas.

`Annotated[T, "text"]` describes a member, `Annotated[T, Keywords(...)]` adds keywords of JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Schema = dict[str, Any]


class Keywords(dict[str, Any]):
    """Keywords of JSON Schema that a type of Python does not have. Hashable, as notes of types must be."""

    __hash__ = object.__hash__  # type: ignore[assignment]


Uuid: TypeAlias = Annotated[str, Keywords(format="uuid")]
Long: TypeAlias = Annotated[int, Keywords(format="int64")]

_BASIC: dict[Any, Schema] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


@dataclass(frozen=True, eq=False)
class TaggedUnion:
    """An object of one of several kinds: `variants` has the members of each kind by the value of the member `tag`.

    The component of a kind is named after that value, with `suffix`.
    """

    name: str
    tag: str
    variants: Mapping[str, Mapping[str, Any]]
    suffix: str = ""


@dataclass(frozen=True, eq=False)
class NamedUnion:
    """A value of one of several types, as a component of its own. `kinds` is called late, as types may be recursive."""

    name: str
    kinds: Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class Variant:
    """One kind of a `TaggedUnion`."""

    tag: str
    value: str
    members: Mapping[str, Any]


@dataclass(frozen=True)
class Body:
    """A component of an OpenAPI document that has the shape of a `TypedDict`, a tagged union or one kind of it."""

    name: str
    shape: Any

    @classmethod
    def of(cls, shape: Any) -> Body:
        """A name ends with `Document` where the product has a class of the component's name, too."""
        return cls(
            shape.name if isinstance(shape, TaggedUnion | NamedUnion) else shape.__name__.removesuffix("Document"),
            shape,
        )


Reference = Callable[[Body], Schema]
"""Return `{"$ref": ...}` of a component, which is added to the document if it is new."""


def body_schema(shape: Any, refer: Reference) -> Schema:
    if isinstance(shape, TaggedUnion):
        return _tagged_union(shape, refer)
    if isinstance(shape, NamedUnion):
        return {"oneOf": [type_schema(kind, refer) for kind in shape.kinds()]}
    if isinstance(shape, Variant):
        return _object({shape.tag: Literal[shape.value], **shape.members}, refer)
    schema = _object(get_type_hints(shape, include_extras=True), refer)
    return {**schema, "description": shape.__doc__} if shape.__doc__ else schema


def type_schema(kind: Any, refer: Reference) -> Schema:
    """Return the schema of a member of the type `kind`. Raises `TypeError` for a type that has none."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:], refer)
    if origin in {Union, UnionType}:
        return _union(arguments, refer)
    if is_typeddict(kind):
        return refer(Body.of(kind))
    if origin is Literal:
        return {**_BASIC[type(arguments[0])], "enum": list(arguments)}
    if origin in {list, tuple}:  # of a tuple `tuple[T, ...]` alone
        return {"type": "array", "items": type_schema(arguments[0], refer)}
    return _map_or_basic(kind, refer)


def _map_or_basic(kind: Any, refer: Reference) -> Schema:
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": type_schema(get_args(kind)[1], refer)}
    if kind in _BASIC:
        return dict(_BASIC[kind])
    raise TypeError(f"no JSON schema for {kind!r}")


def _object(members: Mapping[str, Any], refer: Reference) -> Schema:
    properties, required = {}, []
    for name, kind in members.items():
        if get_origin(kind) is NotRequired:
            properties[name] = type_schema(get_args(kind)[0], refer)
        else:
            properties[name] = type_schema(kind, refer)
            required.append(name)
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _tagged_union(union: TaggedUnion, refer: Reference) -> Schema:
    references = {
        value: refer(Body(_pascal_case(value) + union.suffix, Variant(union.tag, value, members)))
        for value, members in union.variants.items()
    }
    mapping = {value: reference["$ref"] for value, reference in references.items()}
    return {
        "required": [union.tag],
        "oneOf": list(references.values()),
        "discriminator": {"propertyName": union.tag, "mapping": mapping},
    }


def _union(kinds: tuple[Any, ...], refer: Reference) -> Schema:
    schemas = [type_schema(kind, refer) for kind in kinds if kind is not NoneType]
    schema: Schema = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    if NoneType not in kinds:
        return schema
    if "enum" in schema:
        schema["enum"].append(None)
    return {**({"allOf": [schema]} if "$ref" in schema else schema), "nullable": True}


def _annotated(kind: Any, notes: tuple[Any, ...], refer: Reference) -> Schema:
    union = next((note for note in notes if isinstance(note, TaggedUnion | NamedUnion)), None)
    schema = type_schema(kind, refer) if union is None else refer(Body.of(union))
    keywords: Schema = {}
    for note in notes:
        if isinstance(note, str):
            keywords["description"] = note
        elif isinstance(note, Keywords):
            keywords |= note
    return {"allOf": [schema], **keywords} if keywords and "$ref" in schema else {**schema, **keywords}


def _pascal_case(words: str) -> str:
    return "".join(word.capitalize() for word in words.split("-"))
