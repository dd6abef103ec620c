"""Messages about changes that can be undone: their form is stored with them, as JSON in their tags."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from django import template
from django.contrib.messages.storage.base import Message

register = template.Library()

Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Undo:
    """The form of an undo: the address that it is posted to, and its fields."""

    url: str
    fields: Sequence[Field]

    def as_tags(self) -> str:
        return json.dumps({"url": self.url, "fields": list(self.fields)})


@register.filter
def undo(message: Message) -> Undo | None:
    """Return the form that undoes what a message is about, None without one."""
    tags = message.extra_tags or ""
    if not tags.startswith("{"):
        return None
    stored = json.loads(tags)
    return Undo(stored["url"], [(name, value) for name, value in stored["fields"]])
