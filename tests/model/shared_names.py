"""Random work of one process on shared names, verified later from files and journals.

Its writes contain their own token, and either add to the work of others or assert the version that they are based on,
so that the files alone show the order of all writes. To add an operation, add a method to `OPERATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model import bodies
from tests.model.caller import Caller, Reply, is_fleeting
from tests.model.journal import Fault, Result
from tests.model.names import (
    SHARED,
    STABLE,
    VOLATILE,
    Levels,
    Name,
    fold,
    namespace_path,
    respell,
    spelled,
    tabular_path,
)
from tests.model.state import TABLE, VIEW

LEGITIMATE = {
    "NoSuchTableException", "NoSuchViewException", "NoSuchNamespaceException", "AlreadyExistsException",
    "CommitFailedException", "LocationAlreadyTaken", "InvalidLocation", "NamespaceNotEmptyException",
    "NotFoundException",
}  # fmt: skip
"""Errors that other processes may cause."""

OUTDATED = ("first-row-id is null", "snapshot.sequence-number")
"""A snapshot for an older format version, in the text of its error (400)."""

SEEN = 30
MAX_TOKENS = 25
"""Of a view: they are never removed from it, so it is dropped then."""


class Crowd:
    """One of many processes; `base` is the location of the warehouse."""

    def __init__(self, caller: Caller, base: str) -> None:
        self.caller, self.base, self.rng = caller, base, caller.rng
        self.seen: list[str] = []

    def act(self) -> None:
        self.op = self.caller.token()
        [operation] = self.rng.choices(list(OPERATIONS), list(OPERATIONS.values()))
        operation(self)

    def ask(self, what: str, method: str, path: str, body: Any = None, *about: Any) -> Reply:
        response = self.caller.write(self.op, what, method, path, body, about=about)
        is_outdated = response.status == 400 and any(text in response.message for text in OUTDATED)
        is_legitimate = response.error in LEGITIMATE or response.is_passing or is_outdated
        if response.result is Result.REFUSED and not is_legitimate:
            raise Fault(f"{what} was refused with {response.status} {response.body}", self.op, *about)
        if response.record.location is not None and not is_fleeting(response.body["metadata"]):
            self.seen = [*self.seen, response.record.location][-SEEN:]
        return response

    def load(self, name: Name, kind: str = TABLE) -> dict[str, Any] | None:
        """Return its metadata, None when it does not exist."""
        response = self.caller.read(tabular_path(kind, name, self.rng), about=(name,))
        if response.result is Result.DONE:
            metadata: dict[str, Any] = response.body["metadata"]
            return metadata
        if response.status != 404 or response.error != f"NoSuch{kind.capitalize()}Exception":
            raise Fault(f"loading the {kind} {name} returned {response.status} {response.body}", name)
        return None

    def a_space(self) -> Levels:
        return self.rng.choice((*STABLE, *STABLE, *VOLATILE))

    def a_name(self) -> Name:
        return Name(self.a_space(), self.rng.choice(SHARED))

    # --- tables -------------------------------------------------------------------------------------------------

    def create_table(self) -> None:
        name = self.a_name()
        body = bodies.new_table(self.op, respell(name.name, self.rng), self.base, self.rng, is_shared=True)
        self.ask("create table", "POST", f"{namespace_path(name.levels, self.rng)}/tables", body, name)

    def stage_table(self) -> None:
        name = self.a_name()
        body = bodies.new_table(self.op, respell(name.name, self.rng), self.base, self.rng, is_shared=True)
        path = f"{namespace_path(name.levels, self.rng)}/tables"
        staged = self.ask("stage table", "POST", path, body | {"stage-create": True}, name)
        if staged.result is Result.DONE:
            self.op = self.caller.token()
            requirements, updates = bodies.finishing(self.op, staged.body["metadata"], self.rng)
            body = {"requirements": requirements, "updates": updates}
            uuid = staged.body["metadata"]["table-uuid"]
            self.ask("finish table", "POST", tabular_path(TABLE, name, self.rng), body, name, uuid)

    def commit(self) -> None:
        name = self.a_name()
        metadata = self.load(name)
        if metadata is not None:
            commit = bodies.Commit(self.op, metadata, self.base, self.rng, is_shared=True)
            path = tabular_path(TABLE, name, self.rng)
            self.ask("commit", "POST", path, commit.body, name, metadata["table-uuid"])

    def transaction(self) -> None:
        """Commit to tables in any order.

        Fleeting tables are excluded: their files could not show later that it was executed.
        """
        changes, about = [], []
        for index, name in enumerate({self.a_name() for _ in range(self.rng.randint(2, 6))}):
            metadata = self.load(name)
            if metadata is not None and not is_fleeting(metadata):
                commit = bodies.Commit(self.op, metadata, self.base, self.rng, is_shared=True, index=index)
                changes.append({"identifier": name.as_json(self.rng), **commit.body})
                about += [name, metadata["table-uuid"]]
        self.rng.shuffle(changes)
        self.ask("transaction", "POST", "/transactions/commit", {"table-changes": changes}, *about)

    def rename(self) -> None:
        kind, source, destination = self.rng.choice((TABLE, TABLE, VIEW)), self.a_name(), self.a_name()
        body = {"source": source.as_json(self.rng), "destination": destination.as_json(self.rng)}
        self.ask(f"rename {kind}", "POST", f"/{kind}s/rename", body, source, destination)

    def drop(self) -> None:
        kind, name = self.rng.choice((TABLE, TABLE, VIEW)), self.a_name()
        purge = "?purgeRequested=true" if self.rng.random() < 0.3 else ""
        self.ask(f"drop {kind}", "DELETE", tabular_path(kind, name, self.rng) + purge, None, name)

    def unregister(self) -> None:
        name = self.a_name()
        self.ask("unregister table", "POST", tabular_path(TABLE, name, self.rng) + "/unregister", None, name)

    def register(self) -> None:
        """Register a version of a table that this process saw: the table may exist, or have been dropped."""
        name = self.a_name()
        if self.seen:
            body = {"name": respell(name.name, self.rng), "metadata-location": self.rng.choice(self.seen)}
            body |= {"overwrite": self.rng.random() < 0.5}
            path = f"{namespace_path(name.levels, self.rng)}/register"
            self.ask("register table", "POST", path, body, name)

    # --- views --------------------------------------------------------------------------------------------------

    def create_view(self) -> None:
        name = self.a_name()
        body = bodies.new_view(self.op, respell(name.name, self.rng), self.base, self.rng)
        self.ask_for_view("create view", f"{namespace_path(name.levels, self.rng)}/views", body, name)

    def replace_view(self) -> None:
        name = self.a_name()
        metadata = self.load(name, VIEW)
        if metadata is None:
            return
        uuid = metadata["view-uuid"]
        if len(metadata["properties"]) > MAX_TOKENS:
            self.ask("drop view", "DELETE", tabular_path(VIEW, name, self.rng), None, name)
            return
        body = {
            "requirements": [{"type": "assert-view-uuid", "uuid": uuid}],
            "updates": bodies.view_updates(self.op, self.base, self.rng),
        }
        self.ask_for_view("replace view", tabular_path(VIEW, name, self.rng), body, name, uuid)

    def ask_for_view(self, what: str, path: str, body: Any, *about: Any) -> None:
        """Read a view. Shared views are not registered: their newest version would no longer be known."""
        seen = self.seen
        self.ask(what, "POST", path, body, *about)
        self.seen = seen

    # --- namespaces ---------------------------------------------------------------------------------------------

    def create_namespace(self) -> None:
        levels = self.rng.choice(VOLATILE)
        body = {"namespace": spelled(levels, self.rng), "properties": {"op": self.op}}
        self.ask("create namespace", "POST", "/namespaces", body, fold(levels))

    def drop_namespace(self) -> None:
        levels = self.rng.choice(VOLATILE)
        self.ask("drop namespace", "DELETE", namespace_path(levels, self.rng), None, fold(levels))

    def describe_namespace(self) -> None:
        levels = self.a_space()
        body = {"updates": {f"shared-{self.rng.randrange(5)}": self.op}, "removals": [f"shared {self.op}"]}
        path = f"{namespace_path(levels, self.rng)}/properties"
        self.ask("describe namespace", "POST", path, body, fold(levels))

    # --- reads --------------------------------------------------------------------------------------------------

    def load_something(self) -> None:
        self.load(self.a_name(), self.rng.choice((TABLE, TABLE, VIEW)))

    def list_something(self) -> None:
        path = f"{namespace_path(self.a_space(), self.rng)}/{self.rng.choice((TABLE, VIEW))}s"
        token: str | None = ""
        while token is not None:
            response = self.caller.read(f"{path}?pageSize=2&pageToken={token}", what="list")
            token = response.body.get("next-page-token")


OPERATIONS: dict[Callable[[Crowd], None], int] = {
    Crowd.create_table: 5, Crowd.stage_table: 1, Crowd.commit: 25, Crowd.transaction: 8, Crowd.rename: 5, Crowd.drop: 9,
    Crowd.unregister: 1, Crowd.register: 5, Crowd.create_view: 2, Crowd.replace_view: 5,
    Crowd.create_namespace: 4, Crowd.drop_namespace: 3, Crowd.describe_namespace: 2,
    Crowd.load_something: 6, Crowd.list_something: 2,
}  # fmt: skip
