"""Strict parser of the body of DeleteObjects: no other parser can find other keys in it."""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from storage.signing.errors import DeleteWithoutBody, InvalidDeleteBody
from storage.signing.uri import require_plain_key

MAX_KEYS: Final = 1000
"""The limit of S3."""

MAX_BODY_CHARACTERS: Final = 4 * 1024 * 1024

_DECLARATION = re.compile(r"\s*<\?xml\s+version=(['\"])1\.0\1(?:\s+encoding=(['\"])utf-8\2)?\s*\?>", re.IGNORECASE)
_CONDITIONS: Final = frozenset({"ETag", "LastModifiedTime", "Size"})


def parse_delete_body(body: str | None) -> tuple[str, ...]:
    """Return the keys to delete. Raises `DeleteWithoutBody`, `InvalidDeleteBody`, `InvalidObjectKey`.

    Versions of objects cannot be deleted, as with vended credentials.
    """
    if not body:
        raise DeleteWithoutBody("body: required where objects are deleted")
    if len(body) > MAX_BODY_CHARACTERS:
        raise InvalidDeleteBody(f"body: longer than {MAX_BODY_CHARACTERS} characters")
    keys = tuple(key for child in _root(body) for key in _keys_of(child))
    if not 0 < len(keys) <= MAX_KEYS:
        raise InvalidDeleteBody(f"body: must name 1 to {MAX_KEYS} objects")
    for key in keys:
        require_plain_key(key, "body")
    return keys


def _root(body: str) -> Element:
    document = _DECLARATION.sub("", body, count=1) if body.lstrip().startswith("<?") else body
    if "<!" in document or "<?" in document:
        raise InvalidDeleteBody("body: must be XML without comments, sections, instructions and types")
    try:
        root: Element = fromstring(document.encode(), forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        raise InvalidDeleteBody("body: not the XML of DeleteObjects") from None
    if _name(root) != "Delete":
        raise InvalidDeleteBody("body: not the XML of DeleteObjects")
    return root


def _keys_of(child: Element) -> list[str]:
    if _name(child) == "Quiet":
        _text(child)
        return []
    if _name(child) != "Object":
        raise InvalidDeleteBody("body: contains elements that DeleteObjects does not have")
    found = [_text(member) for member in child if _name(member) == "Key"]
    others = {_name(member) for member in child} - {"Key"}
    if "VersionId" in others:
        raise InvalidDeleteBody("body: versions of objects cannot be deleted with a signature of the catalog")
    if len(found) != 1 or not others <= _CONDITIONS:
        raise InvalidDeleteBody("body: each Object must have one Key, and no elements that DeleteObjects does not have")
    return found


def _text(element: Element) -> str:
    if len(element) or not element.text:
        raise InvalidDeleteBody("body: keys and flags must be texts")
    return element.text


def _name(element: Element) -> str:
    """Return the name of an element without its namespace, which stores treat differently."""
    if element.attrib:
        raise InvalidDeleteBody("body: contains attributes")
    return str(element.tag).rpartition("}")[2]
