"""Strict reader of YAML and JSON files: plain data, no duplicate members, no anchors, aliases or tags.

The files may contain secrets, so error messages contain only names of members. Instead of a string they may contain a
reference to a secret, `{env: NAME}` or `{file: PATH}`; with `format: json` it is replaced by a JSON object, such as the
key file of a service account.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 20
MAX_VALUES: Final = 50_000
MAX_SECRET_BYTES: Final = 65_536

_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")
)


class InvalidDocument(Exception):
    """The document cannot be read; the message has the position and no secrets."""


class MissingSecret(Exception):
    """A referenced secret does not exist; the message has the path of the reference."""


def read_document_file(path: str) -> Any:
    """Read the file `path`, `-` for standard input. JSON if its name ends with .json or it begins with a brace."""
    try:
        if path == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidDocument(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    name = "standard input" if path == "-" else path
    try:
        return parse_document(content, is_json=path.endswith(".json"))
    except InvalidDocument as error:
        raise InvalidDocument(f"{name}: {error}") from None


def parse_document(content: bytes, *, is_json: bool = False) -> Any:
    """Return strings, numbers, booleans, None, lists and dicts with string keys. Raises `InvalidDocument`."""
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
        raise InvalidDocument(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:  # a number of thousands of digits
        raise InvalidDocument("contains a number that is too large") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise InvalidDocument(f"the member {key[:100]!r} occurs twice")
        members[key] = value
    return members


def _no_constant(name: str) -> NoReturn:
    raise InvalidDocument(f"{name} is not a JSON number")


def _yaml(text: str) -> Any:
    try:
        _require_no_anchors_or_tags(text)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidDocument("is empty")
        return _built(loader, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InvalidDocument(f"not YAML{where}") from None
    except yaml.YAMLError:  # a character that YAML does not allow, NUL among them
        raise InvalidDocument("contains a character that YAML does not allow") from None
    except (RecursionError, ValueError):
        raise InvalidDocument("contains a value that cannot be read") from None


def _require_no_anchors_or_tags(text: str) -> None:
    """Reject anchors and tags before any object is built. Anchors can expand without bound, tags can create objects."""
    depth = values = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InvalidDocument(f"{_where(event)}: anchors and aliases (&, *) are not allowed")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) is not None:
            raise InvalidDocument(f"{_where(event)}: tags (!) are not allowed")
        values += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InvalidDocument(f"nested deeper than {MAX_DEPTH} levels")
        if values > MAX_VALUES:
            raise InvalidDocument(f"more than {MAX_VALUES} values")


def _where(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark else "somewhere"


def _built(loader: Any, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        pairs = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise InvalidDocument(f"line {key_node.start_mark.line + 1}: the name of a member must be a string")
            pairs.append((str(key_node.value), _built(loader, value_node)))
        return _unique(pairs)
    if isinstance(node, yaml.SequenceNode):
        return [_built(loader, each) for each in node.value]
    if node.tag not in _PLAIN_TAGS:  # dates and similar types are kept as strings
        return str(node.value)
    return loader.construct_object(node)


def _require_plain(value: Any, path: str = "", depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise InvalidDocument(f"nested deeper than {MAX_DEPTH} levels")
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


def resolve_secrets(value: Any, path: str) -> Any:
    """Return `value` with references replaced by secrets. Raises `MissingSecret`; its message begins with `path`."""
    if isinstance(value, list):
        return [resolve_secrets(each, f"{path}[{number}]") for number, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kinds = value.keys() & {"env", "file"}
    if len(kinds) != 1 or not value.keys() <= {"env", "file", "format"}:
        return {name: resolve_secrets(each, f"{path}.{name}") for name, each in value.items()}
    (kind,) = kinds
    name, form = value[kind], value.get("format", "text")
    if not isinstance(name, str) or not name:
        raise MissingSecret(f"{path}.{kind}: must be a non-empty string")
    if form not in ("text", "json"):
        raise MissingSecret(f"{path}.format: must be text or json")
    secret = _of_variable(name, path) if kind == "env" else _of_file(Path(name), path)
    if form == "text":
        return secret
    try:
        return parse_document(secret.encode(errors="surrogateescape"), is_json=True)
    except InvalidDocument as error:
        raise MissingSecret(f"{path}: the content of {kind} {name!r} cannot be read: {error}") from None


def _of_variable(name: str, path: str) -> str:
    secret = os.environ.get(name, "").strip()
    if not secret:
        raise MissingSecret(f"{path}: the variable {name!r} is not set or empty")
    return secret


def _of_file(file: Path, path: str) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_SECRET_BYTES + 1)
        secret = content.decode().strip()
    except OSError as error:
        raise MissingSecret(f"{path}: {file} cannot be read: {error.strerror or type(error).__name__}") from None
    except (UnicodeDecodeError, ValueError):
        raise MissingSecret(f"{path}: {file} cannot be read: not UTF-8") from None
    if not secret or len(content) > MAX_SECRET_BYTES:
        raise MissingSecret(f"{path}: {file} is empty or larger than {MAX_SECRET_BYTES} bytes")
    return secret
