"""A process's own namespaces, up to five levels deep, and its own properties of shared namespaces."""

from __future__ import annotations

from collections.abc import Callable

from tests.model.names import STABLE, namespace_path, spelled
from tests.model.own.owner import EXISTS, NO_NAMESPACE, Owner
from tests.model.state import Space, Step


def create_namespace(owner: Owner) -> Step:
    missing = [each for each in owner.spaces if not owner.is_there(each) and owner.is_there(each[:-1] or STABLE[0])]
    levels = owner.likely(missing, [*owner.spaces, (*owner.spaces[4], "too deep")])
    space, properties = Space(levels), {"op": owner.op}
    error = None
    if len(levels) > 5:
        error = (400, "NamespaceDepthExceeded")
    elif len(levels) > 1 and owner.state.get(Space(levels[:-1])) is None:
        error = NO_NAMESPACE
    elif owner.state.get(space) is not None:
        error = EXISTS
    body = {"namespace": spelled(levels, owner.rng), "properties": properties}
    return Step("create namespace", "POST", "/namespaces", body, {space: properties}, error)


def drop_namespace(owner: Owner) -> Step:
    space = owner.rng.choice([*(Space(levels) for levels in owner.spaces), owner.mine[0]])
    path = namespace_path(space.levels, owner.rng)
    if owner.state.get(space) is None:
        return Step("drop namespace", "DELETE", path, after={space: None}, error=NO_NAMESPACE)
    is_full = space.prefix or any(
        state is not None and subject.levels[: len(space.levels)] == space.levels and subject != space
        for subject, state in owner.state.items()
    )
    error = (409, "NamespaceNotEmptyException") if is_full else None
    return Step("drop namespace", "DELETE", path, after={space: None}, error=error)


def describe_namespace(owner: Owner) -> Step:
    space = owner.rng.choice([*(Space(levels) for levels in owner.spaces[:3]), *owner.mine])
    op, was = owner.op, owner.state.get(space)
    keys = [f"{owner.root}-{index}" for index in range(4)]
    key, removed = owner.rng.sample(keys, 2)
    body = {"updates": {key: op}, "removals": [removed]}
    properties = {k: v for k, v in (was or {}).items() if k != removed} | {key: op}  # type: ignore[union-attr]
    path = namespace_path(space.levels, owner.rng) + "/properties"
    error = NO_NAMESPACE if was is None else None
    return Step("describe namespace", "POST", path, body, {space: properties}, error)


OPERATIONS: dict[Callable[[Owner], Step | None], int] = {create_namespace: 5, drop_namespace: 3, describe_namespace: 4}
