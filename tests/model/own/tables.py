"""A process's own tables: created immediately or staged, with commits to one of them and to several in one
transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model import bodies
from tests.model.journal import Fault, Result
from tests.model.names import namespace_path, respell, tabular_path
from tests.model.own.owner import FAILED, NOT_FOUND, TAKEN, Owner
from tests.model.state import TABLE, Expected, Seen, Step, Subject
from tests.model.table_model import changed, created, finished


def create_table(owner: Owner) -> Step:
    name, op = owner.a_free_name(), owner.op
    body = bodies.new_table(op, respell(name.name, owner.rng), owner.base, owner.rng, is_shared=False)
    others = TAKEN if bodies.is_pooled(body.get("location")) else frozenset()
    path = f"{namespace_path(name.levels, owner.rng)}/tables"
    after: dict[Subject, Any] = {name: Expected(TABLE, created(body))}
    return Step("create table", "POST", path, body, after, owner.why_not_created(name), others)


def stage_table(owner: Owner) -> Step | None:
    """Stage a create, which changes nothing, and complete it."""
    name, op = owner.a_free_name(), owner.op
    body = bodies.new_table(op, respell(name.name, owner.rng), owner.base, owner.rng, is_shared=False)
    path = f"{namespace_path(name.levels, owner.rng)}/tables"
    failure = owner.why_not_created(name)
    staged = owner.caller.write(op, "stage table", "POST", path, body | {"stage-create": True}, about=(name,))
    if staged.result is Result.UNKNOWN or staged.is_passing:
        return None
    if failure is not None or staged.result is Result.REFUSED:
        others = TAKEN if bodies.is_pooled(body.get("location")) else frozenset()
        if (staged.status, staged.error) not in {failure, *others}:
            raise Fault(f"staging {name} returned {staged.status} {staged.body}, not {failure}", name, op)
        return None
    owner.confirm(name)
    op = owner.op = owner.caller.token()
    requirements, updates = bodies.finishing(op, staged.body["metadata"], owner.rng)
    others = TAKEN if bodies.is_pooled(staged.body["metadata"]["location"]) else frozenset()
    commit = {"requirements": requirements, "updates": updates}
    after: dict[Subject, Any] = {name: Expected(TABLE, finished(updates))}
    return Step("finish table", "POST", tabular_path(TABLE, name, owner.rng), commit, after, None, others)


def commit(owner: Owner) -> Step:
    name, op = owner.a_name(TABLE), owner.op
    path, held = tabular_path(TABLE, name, owner.rng), owner.state.get(name)
    if not isinstance(held, Seen) or held.kind != TABLE:
        body = {"requirements": [], "updates": []}
        return Step("commit", "POST", path, body, {name: None}, NOT_FOUND[TABLE])
    commit = bodies.Commit(op, held.metadata, owner.base, owner.rng, is_shared=False)
    failure = None
    if owner.rng.random() < 0.1:
        commit.break_a_requirement()
        failure = FAILED
    after: dict[Subject, Any] = {name: Expected(TABLE, changed(held.model, commit.updates))}
    others = TAKEN if commit.uses_pool else frozenset()
    return Step("commit", "POST", path, commit.body, after, failure, others, about=(held.uuid,))


def transaction(owner: Owner) -> Step:
    """Commit to several tables, one of which may be missing or in another state than asserted."""
    names, op = owner.rng.sample(owner.names, owner.rng.randint(1, 3)), owner.op
    changes, after, failure, others = [], {}, None, frozenset()
    for index, name in enumerate(names):
        held = owner.state.get(name)
        if not isinstance(held, Seen) or held.kind != TABLE:
            if owner.rng.random() < 0.8:
                continue
            failure = failure or NOT_FOUND[TABLE]
            changes.append({"identifier": name.as_json(owner.rng), "requirements": [], "updates": []})
            continue
        commit = bodies.Commit(op, held.metadata, owner.base, owner.rng, is_shared=False, index=index)
        if owner.rng.random() < 0.1:
            commit.break_a_requirement()
            failure = failure or FAILED
        others |= TAKEN if commit.uses_pool else frozenset()
        changes.append({"identifier": name.as_json(owner.rng), **commit.body})
        after[name] = Expected(TABLE, changed(held.model, commit.updates))
    body = {"table-changes": changes}
    return Step("transaction", "POST", "/transactions/commit", body, after, failure, others)


OPERATIONS: dict[Callable[[Owner], Step | None], int] = {create_table: 5, stage_table: 3, commit: 16, transaction: 5}
