"""A process's own views: create and replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model import bodies
from tests.model.names import namespace_path, respell, tabular_path
from tests.model.own.owner import FAILED, NOT_FOUND, TAKEN, Owner
from tests.model.state import VIEW, Expected, Seen, Step, Subject
from tests.model.view_model import view_changed


def create_view(owner: Owner) -> Step:
    name, op = owner.a_free_name(), owner.op
    body = bodies.new_view(op, respell(name.name, owner.rng), owner.base, owner.rng)
    model = {
        "uuid": None, "location": body.get("location"), "properties": body["properties"],
        "versions": {1: f"select '{op}'"}, "current": 1, "log": [1],
    }  # fmt: skip
    others = TAKEN if "location" in body else frozenset()
    path = f"{namespace_path(name.levels, owner.rng)}/views"
    after: dict[Subject, Any] = {name: Expected(VIEW, model)}
    return Step("create view", "POST", path, body, after, owner.why_not_created(name), others)


def replace_view(owner: Owner) -> Step:
    name, op = owner.a_name(VIEW), owner.op
    path, held = tabular_path(VIEW, name, owner.rng), owner.state.get(name)
    if not isinstance(held, Seen) or held.kind != VIEW:
        return Step("replace view", "POST", path, {"updates": []}, {name: None}, NOT_FOUND[VIEW])
    uuid, error = held.uuid, None
    if owner.rng.random() < 0.1:
        uuid, error = "00000000-0000-4000-8000-000000000000", FAILED
    updates = bodies.view_updates(op, owner.base, owner.rng)
    body = {"requirements": [{"type": "assert-view-uuid", "uuid": uuid}], "updates": updates}
    after: dict[Subject, Any] = {name: Expected(VIEW, view_changed(held.model, updates))}
    return Step("replace view", "POST", path, body, after, error)


OPERATIONS: dict[Callable[[Owner], Step | None], int] = {create_view: 4, replace_view: 5}
