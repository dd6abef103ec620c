"""Reads of own objects, each of which must return exactly these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model.journal import Fault, Result
from tests.model.names import STABLE, fold, namespace_path, tabular_path
from tests.model.own.owner import NO_NAMESPACE, Owner
from tests.model.state import TABLE, VIEW, Seen, Space, Subject


def look_at_one(owner: Owner) -> None:
    subjects: list[Subject] = [*owner.names, *owner.mine, *(Space(levels) for levels in owner.spaces)]
    owner.confirm(owner.rng.choice(subjects))


def ask_whether_it_exists(owner: Owner) -> None:
    name, kind = owner.rng.choice(owner.names), owner.rng.choice((TABLE, VIEW))
    held = owner.state.get(name)
    is_there = isinstance(held, Seen) and held.kind == kind
    response = owner.caller.read(tabular_path(kind, name, owner.rng), method="HEAD", what="exists", about=(name,))
    if response.status != (204 if is_there else 404):
        raise Fault(f"HEAD of the {kind} {name} returned {response.status}", name)


def list_tabulars(owner: Owner) -> None:
    """Read all pages: each own name occurs once, whatever others do in between."""
    levels, kind = owner.rng.choice([*STABLE, *owner.spaces[:2]]), owner.rng.choice((TABLE, VIEW))
    found = _pages(owner, f"{namespace_path(levels, owner.rng)}/{kind}s", "identifiers", Space(levels))
    if not owner.is_there(levels):
        expected = None
    else:
        held = {n for n in owner.names if n.levels == levels and isinstance(owner.state.get(n), Seen)}
        expected = sorted(fold(n.levels, n.name) for n in held if owner.state[n].kind == kind)  # type: ignore[union-attr]
    if found is not None:
        found = sorted(name for each in found if owner.is_mine(name := fold(each["namespace"], each["name"])))
    if found != expected:
        raise Fault(f"the {kind}s of {levels} are {expected}, and {found} are listed", ".".join(levels))


def list_namespaces(owner: Owner) -> None:
    parent = owner.rng.choice(owner.spaces[:4])
    path = "/namespaces?parent=" + namespace_path(parent, owner.rng).removeprefix("/namespaces/")
    found = _pages(owner, path, "namespaces", Space(parent))
    expected = None
    if owner.is_there(parent):
        children = [levels for levels in owner.spaces if levels[:-1] == parent and owner.is_there(levels)]
        expected = sorted(fold(levels) for levels in children)
    if (found if found is None else sorted(fold(levels) for levels in found)) != expected:
        raise Fault(f"the namespaces of {parent} are {expected}, and {found} are listed", Space(parent))


def _pages(owner: Owner, path: str, field: str, space: Space) -> list[Any] | None:
    found: list[Any] = []
    token: str | None = ""
    mark = "&" if "?" in path else "?"
    size = owner.rng.choice((1, 2, 3, 100))
    while token is not None:
        response = owner.caller.read(f"{path}{mark}pageSize={size}&pageToken={token}", what="list", about=(space,))
        if response.result is Result.REFUSED:
            owner.require(response, NO_NAMESPACE, space)
            return None
        found += response.body[field]
        token = response.body.get("next-page-token")
    return found


OPERATIONS: dict[Callable[[Owner], None], int] = {
    look_at_one: 8, ask_whether_it_exists: 3, list_tabulars: 3, list_namespaces: 2,
}  # fmt: skip
