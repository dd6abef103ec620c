"""Tabs of a page, each with an address of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from icekeeper.kernel.errors.types import NotFound
from management.admin.navigation import Text


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab; `count` stands behind its label when it is known."""

    slug: str
    label: Text
    count: int | None = None


@dataclass(frozen=True, slots=True)
class LinkedTab:
    """A tab as the template shows it."""

    label: Text
    url: str
    is_current: bool
    count: int | None


def choose_tab(tabs: Sequence[Tab], slug: str | None) -> str:
    """Return the slug of the tab in the address, the first one without any. Raises `NotFound` for an unknown tab."""
    if slug is None:
        return tabs[0].slug
    if slug not in {each.slug for each in tabs}:
        raise NotFound("No such tab")
    return slug


def link_tabs(tabs: Sequence[Tab], current: str, view: str, args: Sequence[Any]) -> list[LinkedTab]:
    """Return the tabs of the page `view`, whose other tabs have the view `<view>-tab`."""
    first = tabs[0].slug
    return [
        LinkedTab(
            each.label,
            reverse(view, args=args) if each.slug == first else reverse(f"{view}-tab", args=[*args, each.slug]),
            each.slug == current,
            each.count,
        )
        for each in tabs
    ]
