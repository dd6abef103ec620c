"""Every route of the server, from its resolver, and the unauthenticated routes, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.urls import URLPattern, URLResolver, get_resolver

OPEN = {
    "health": "says of the server whether it works, to what watches over it",
    "health-live": "as health",
    "health-ready": "as health",
    "oauth-tokens": "a client that wants a token shows its credential",
    "home": "leads to the console",
    "console": "leads to the console",
    "swagger-ui": "shows the documents",
    "swagger-ui-home": "shows the documents",
    "swagger-catalog": "shows the documents",
    "swagger-generic-tables": "shows the documents",
    "openapi": "the documents say nothing of what is stored here",
    "asyncapi": "as the OpenAPI documents",
}
"""Unauthenticated routes by name."""


@dataclass(frozen=True)
class Route:
    name: str
    pattern: str
    view: Any

    def __str__(self) -> str:
        return f"/{self.pattern}"

    @property
    def template(self) -> str:
        """Return the path in the form of the OpenAPI documents."""
        return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", self.pattern)

    @property
    def methods(self) -> list[str]:
        """Return the methods of an API view itself, without OPTIONS, which every view has."""
        return [name.upper() for name in self.view.cls.http_method_names if name != "options" and self._has(name)]

    def target(self, names: dict[str, str]) -> str:
        return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda each: names.get(each[1], str(uuid4())), self.pattern)

    def _has(self, method: str) -> bool:
        actions = getattr(self.view, "actions", None)
        if actions is None:
            return hasattr(self.view.cls, method)
        # When it serves a request, DRF adds an action for HEAD that is the one for GET.
        return method in actions and (method != "head" or actions["head"] != actions.get("get"))


def routes(patterns: list[URLPattern | URLResolver] | None = None, prefix: str = "") -> Iterator[Route]:
    for each in get_resolver().url_patterns if patterns is None else patterns:
        where = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each.url_patterns, where)
        else:
            yield Route(each.name or "", where, each.callback)


ROUTES = [each for each in routes() if not each.pattern.startswith("ui/")]
CONSOLE_ROUTES = [each for each in routes() if each.pattern.startswith("ui/")]
"""Sign-in, and the pages that only signed-in users may open: `tests/console` tests them."""
