"""Operations that own tables and views share: rename, drop, unregister and register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model import bodies
from tests.model.caller import is_fleeting
from tests.model.names import namespace_path, respell, tabular_path
from tests.model.own.owner import EXISTS, NO_NAMESPACE, NOT_FOUND, TAKEN, TAKEN_OR_MISSING, Owner
from tests.model.state import TABLE, VIEW, Expected, Seen, Step, Subject


def rename(owner: Owner) -> Step:
    kind = owner.rng.choice((TABLE, TABLE, VIEW))
    source, destination = owner.a_name(kind), owner.a_free_name()
    held, target = owner.state.get(source), owner.state.get(destination)
    error = None
    if not isinstance(held, Seen) or held.kind != kind:
        error = NOT_FOUND[kind]
    elif not owner.is_there(destination.levels):
        error = NO_NAMESPACE
    elif target is not None and source != destination:
        error = EXISTS
    after: dict[Subject, Any] = {source: None}
    after[destination] = Expected.same(held) if isinstance(held, Seen) else None
    body = {"source": source.as_json(owner.rng), "destination": destination.as_json(owner.rng)}
    return Step(f"rename {kind}", "POST", f"/{kind}s/rename", body, after, error)


def drop(owner: Owner) -> Step:
    kind = owner.rng.choice((TABLE, TABLE, VIEW))
    name = owner.a_name(kind)
    held, error = owner.state.get(name), None
    if not isinstance(held, Seen) or held.kind != kind:
        error = NOT_FOUND[kind]
    purge = owner.rng.random() < 0.3
    if purge and isinstance(held, Seen):
        owner.purged.add(held.uuid)
    path = tabular_path(kind, name, owner.rng) + ("?purgeRequested=true" if purge else "")
    about = (held.uuid,) if isinstance(held, Seen) else ()
    return Step(f"drop {kind}", "DELETE", path, None, {name: None}, error, about=about)


def unregister(owner: Owner) -> Step:
    name = owner.a_name(TABLE)
    held = owner.state.get(name)
    error = None if isinstance(held, Seen) and held.kind == TABLE else NOT_FOUND[TABLE]
    path = tabular_path(TABLE, name, owner.rng) + "/unregister"
    return Step("unregister table", "POST", path, None, {name: None}, error)


def register(owner: Owner) -> Step | None:
    """Register an earlier version of an own table or view, as a new one or as a replacement of the one with that
    name.
    """
    if not owner.archive:
        return None
    old, name = owner.rng.choice(owner.archive), owner.rng.choice((owner.a_free_name(), owner.a_name(TABLE)))
    overwrite = old.kind == TABLE and owner.rng.random() < 0.5
    held = owner.state.get(name)
    is_replaced = overwrite and isinstance(held, Seen) and held.kind == TABLE
    twins = [n for n, s in owner.state.items() if isinstance(s, Seen) and s.uuid == old.uuid]
    is_elsewhere = bool(twins) and not (is_replaced and twins == [name])
    error = None
    if not owner.is_there(name.levels):
        error = NO_NAMESPACE
    elif (held is not None and not is_replaced) or is_elsewhere:
        error = EXISTS
    others: frozenset[tuple[int, str]] = TAKEN if bodies.is_pooled(old.metadata["location"]) else frozenset()
    if is_elsewhere:  # and nearly always reserves the location of the file
        others |= TAKEN
    if old.uuid in owner.purged or is_fleeting(old.metadata):  # its file may be deleted
        others |= TAKEN_OR_MISSING
    body = {"name": respell(name.name, owner.rng), "metadata-location": old.location}
    body |= {"overwrite": overwrite} if old.kind == TABLE else {}
    path = namespace_path(name.levels, owner.rng) + ("/register" if old.kind == TABLE else "/register-view")
    after: dict[Subject, Any] = {name: Expected.same(old)}
    return Step(f"register {old.kind}", "POST", path, body, after, error, others, about=(old.uuid,))


OPERATIONS: dict[Callable[[Owner], Step | None], int] = {rename: 5, drop: 7, unregister: 1, register: 4}
