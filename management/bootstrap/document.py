"""YAML or JSON that an operator wrote, read strictly: plain data, each member once, nothing that unfolds or runs.

It may hold secrets, so no refusal repeats anything of it but the names of members.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

MAX_BYTES: Final = 1_048_576
DEEPEST: Final = 20
MOST_VALUES: Final = 50_000

_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")
)


class InvalidDocument(Exception):
    """What cannot be read; the message says where, and is fit for everybody's eyes."""


def read_document(place: str) -> Any:
    """The content of the file `place`, `-` for standard input. JSON when it is named so or begins with a brace."""
    try:
        if place == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(place).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidDocument(f"{place} cannot be read: {error.strerror or type(error).__name__}") from None
    name = "standard input" if place == "-" else place
    try:
        return parse_document(content, is_json=place.endswith(".json"))
    except InvalidDocument as refusal:
        raise InvalidDocument(f"{name}: {refusal}") from None


def parse_document(content: bytes, *, is_json: bool = False) -> Any:
    """Texts, numbers, true, false, null, lists and objects with texts as keys. Raises `InvalidDocument`."""
    if len(content) > MAX_BYTES:
        raise InvalidDocument(f"larger than {MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"not UTF-8 at byte {error.start}") from None
    value = _json(text) if is_json or text.lstrip().startswith("{") else _yaml(text)
    _require_plain(value)
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InvalidDocument(f"not JSON at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidDocument(f"nested deeper than {DEEPEST} levels") from None
    except ValueError:  # a number of thousands of digits
        raise InvalidDocument("it holds a number that is too large") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise InvalidDocument(f"the member {key[:100]!r} stands there twice")
        members[key] = value
    return members


def _no_constant(name: str) -> NoReturn:
    raise InvalidDocument(f"{name} is no number of JSON")


def _yaml(text: str) -> Any:
    try:
        _require_no_tricks(text)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidDocument("it is empty")
        return _built(loader, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InvalidDocument(f"not YAML{where}") from None
    except yaml.YAMLError:  # a character that YAML does not allow, NUL among them
        raise InvalidDocument("it holds a character that YAML does not allow") from None
    except (RecursionError, ValueError):
        raise InvalidDocument("it holds a value that cannot be read") from None


def _require_no_tricks(text: str) -> None:
    """Anchors unfold and tags make objects: neither is of use here. Nothing is built yet, so nothing has unfolded."""
    depth = values = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InvalidDocument(f"{_where(event)}: anchors and aliases (&, *) are not taken")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) is not None:
            raise InvalidDocument(f"{_where(event)}: tags (!) are not taken")
        values += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise InvalidDocument(f"nested deeper than {DEEPEST} levels")
        if values > MOST_VALUES:
            raise InvalidDocument(f"more than {MOST_VALUES} values")


def _where(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark else "somewhere"


def _built(loader: Any, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        pairs = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise InvalidDocument(f"line {key_node.start_mark.line + 1}: the name of a member must be a text")
            pairs.append((str(key_node.value), _built(loader, value_node)))
        return _unique(pairs)
    if isinstance(node, yaml.SequenceNode):
        return [_built(loader, each) for each in node.value]
    if node.tag not in _PLAIN_TAGS:  # dates and the like: what was written is a text
        return str(node.value)
    return loader.construct_object(node)


def _require_plain(value: Any, path: str = "", depth: int = 0) -> None:
    if depth > DEEPEST:
        raise InvalidDocument(f"nested deeper than {DEEPEST} levels")
    if isinstance(value, dict):
        for key, member in value.items():
            _require_plain(key, path, depth)
            _require_plain(member, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for number, member in enumerate(value):
            _require_plain(member, f"{path}[{number}]", depth + 1)
    elif isinstance(value, str) and ("\x00" in value or _has_surrogate(value)):
        raise InvalidDocument(f"{path[:200]}: NUL and lone surrogates are not allowed")


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
