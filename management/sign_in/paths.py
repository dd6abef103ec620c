"""Paths of the console: which requests are for it, and redirects that stay inside it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlencode

from django.http import HttpRequest
from django.urls import get_script_prefix, reverse
from django.utils.http import url_has_allowed_host_and_scheme

CONSOLE_PATH: Final = "/ui"
"""Path of the console, and of its cookies, below the prefix of the public URL."""

MAX_NEXT_LENGTH: Final = 2048

_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]|(?:^|/)\.{1,2}(?:[/?#]|$)|//")
"""Characters that browsers remove or convert, dot segments, and empty segments."""


def is_console_path(request: HttpRequest) -> bool:
    return request.path_info == CONSOLE_PATH or request.path_info.startswith(f"{CONSOLE_PATH}/")


def console_home() -> str:
    """Return the path of the overview with the public prefix."""
    return f"{get_script_prefix().rstrip('/')}{CONSOLE_PATH}/"


def safe_next(target: str | None, *, max_length: int = MAX_NEXT_LENGTH) -> str:
    """Return `target` if it is a path of the console with the public prefix, else the path of the overview."""
    home = console_home()
    if not target or len(target) > max_length or not target.startswith(home):
        return home
    path = target.partition("?")[0]
    if not url_has_allowed_host_and_scheme(target, allowed_hosts=None):
        return home
    return (
        home if _UNSAFE.search(target.partition("#")[0].partition("?")[0]) or _UNSAFE.search(unquote(path)) else target
    )


def sign_in_url(target: str | None = None) -> str:
    """Return the path of the sign-in page, which leads to `target` afterwards."""
    page = reverse("sign_in:page")
    wanted = safe_next(target)
    return page if wanted == console_home() else f"{page}?{urlencode({'next': wanted})}"
