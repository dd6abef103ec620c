"""The names that only one process uses, and its verification of its own work on them by a sequential model.

Concurrent work of others in the same namespaces, warehouse and database must have no visible effect.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

from tests.catalog_fixtures import chosen
from tests.model.caller import Caller, Reply, is_fleeting
from tests.model.journal import Fault, Result
from tests.model.names import STABLE, Levels, Name, namespace_path, tabular_path
from tests.model.state import TABLE, VIEW, Expected, Seen, Space, State, Step, Subject, mismatch

TAKEN = frozenset({(409, "LocationAlreadyTaken"), (400, "InvalidLocation")})
"""A location that others chose too: another table is there, or files that another table left."""
TAKEN_OR_MISSING = TAKEN | {(404, "NotFoundException")}
NO_NAMESPACE, EXISTS = (404, "NoSuchNamespaceException"), (409, "AlreadyExistsException")
NOT_FOUND = {TABLE: (404, "NoSuchTableException"), VIEW: (404, "NoSuchViewException")}
FAILED = (409, "CommitFailedException")
T = TypeVar("T")

ARCHIVED = 8
"""Versions of what was dropped or changed that can be registered again."""

LOOKS = 0.3
"""Share of the responses that the process verifies with a read."""


class Owner:
    """The owned objects of one process; `base` is the location of the warehouse."""

    def __init__(self, caller: Caller, base: str) -> None:
        self.caller, self.base, self.rng = caller, base, caller.rng
        root = self.root = f"own{caller.number}"
        deep: Levels = (root, "a", "ß", "d", "e")
        self.spaces: list[Levels] = [*(deep[:depth] for depth in range(1, 6)), (root, "b")]
        self.mine = [Space(levels, prefix=f"{root}-") for levels in STABLE]
        self.names = [Name(levels, f"{root}-{name}") for levels in STABLE for name in "xy"]
        self.names += [Name(levels, name) for levels in self.spaces[:2] for name in ("x", "ǆ")]
        self.state: dict[Subject, State] = {space: {} for space in self.mine}
        self.archive: list[Seen] = []
        self.purged: set[str] = set()
        self.op = ""
        """The token of the request at hand."""

    def perform(self, step: Step) -> None:
        """Perform the step and compare its result with the model."""
        about = (*step.after, *step.about)
        response = self.caller.write(self.op, step.what, step.method, step.path, step.body, about=about)
        if response.result is Result.UNKNOWN:
            self._find_out(step, response)
        elif response.result is Result.DONE:
            if step.error is not None:
                raise self.fault(step, f"was done; it had to be refused with {step.error}")
            self._adopt(step, response)
        elif not response.is_passing:
            expected = step.others | ({step.error} if step.error else set())
            if (response.status, response.error) not in expected:
                raise self.fault(step, f"was refused with {response.status} {response.body}, not with {step.error}")
        if response.result is Result.REFUSED and self.rng.random() < LOOKS:
            for subject in step.after:
                self.confirm(subject)

    def fault(self, step: Step, message: str, *about: Any) -> Fault:
        return Fault(f"{step.what} of {self.op} {message}", self.op, *step.after, *step.about, *about)

    def confirm(self, subject: Subject) -> None:
        """Assert that the object is in the state of the model."""
        was = self.state.get(subject)
        wrong = mismatch(was, self.look(subject))
        if wrong:
            about = [was.uuid] if isinstance(was, Seen) else []
            raise Fault(f"{subject} is not as its owner left it: {wrong}", subject, *about)

    def look(self, subject: Subject) -> State:
        if isinstance(subject, Space):
            response = self.caller.read(
                namespace_path(subject.levels, self.rng), what="load namespace", about=(subject,)
            )
            if response.result is Result.REFUSED:
                self.require(response, NO_NAMESPACE, subject)
                return None
            properties = chosen(response.body["properties"])
            return {key: value for key, value in properties.items() if key.startswith(subject.prefix)}
        for kind in (TABLE, VIEW):
            response = self.caller.read(tabular_path(kind, subject, self.rng), about=(subject,))
            if response.result is Result.DONE:
                return Seen(kind, response.body["metadata-location"], response.body["metadata"])
            self.require(response, NOT_FOUND[kind], subject)
        return None

    def require(self, response: Reply, failure: tuple[int, str], subject: Any) -> None:
        if (response.status, response.error) != failure:
            raise Fault(f"reading {subject} returned {response.status} {response.body}", subject)

    def _adopt(self, step: Step, response: Reply) -> None:
        for subject, wanted in step.after.items():
            has_response = isinstance(wanted, Expected) and "metadata" in response.body and len(step.after) == 1
            if has_response:
                seen: State = Seen(wanted.kind, response.body["metadata-location"], response.body["metadata"])  # type: ignore[union-attr]
            elif isinstance(wanted, Expected) or self.rng.random() < LOOKS:
                seen = self.look(subject)
            else:
                seen = wanted
            wrong = mismatch(wanted, seen)
            if wrong:
                raise self.fault(step, f"was acknowledged, and {subject} is wrong: {wrong}")
            self._keep(subject, seen)
            if has_response and self.rng.random() < LOOKS:
                self.confirm(subject)

    def _find_out(self, step: Step, response: Reply) -> None:
        """Find out whether a request with an unknown result was executed: completely, or not at all."""
        self.caller.settle()
        seen = {subject: self.look(subject) for subject in step.after}
        undone = {subject: mismatch(self.state.get(subject), found) for subject, found in seen.items()}
        if not any(undone.values()):
            response.record.found(Result.REFUSED, time.monotonic(), None)
            return
        wrong = {subject: mismatch(wanted, seen[subject]) for subject, wanted in step.after.items()}
        if step.error is not None or any(wrong.values()):
            raise self.fault(step, f"is neither done ({wrong}) nor undone ({undone})")
        locations = [found.location for found in seen.values() if isinstance(found, Seen)]
        response.record.found(Result.DONE, time.monotonic(), locations[0] if len(locations) == 1 else None)
        for subject, found in seen.items():
            self._keep(subject, found)

    def _keep(self, subject: Subject, now: State) -> None:
        was = self.state.get(subject)
        if isinstance(was, Seen) and (now is None or not is_fleeting(was.metadata)):
            self.archive = [*self.archive, was][-ARCHIVED:]
        self.state[subject] = now

    def a_name(self, kind: str) -> Name:
        """Return a name, mostly of an existing object of the kind."""
        held = [n for n in self.names if isinstance(s := self.state.get(n), Seen) and s.kind == kind]
        return self.likely(held, self.names)

    def a_free_name(self) -> Name:
        """Return a name, mostly an unused one in an existing namespace."""
        return self.likely([n for n in self.names if self.state.get(n) is None and self.is_there(n.levels)], self.names)

    def likely(self, promising: list[T], others: list[T]) -> T:
        return self.rng.choice(promising if promising and self.rng.random() < 0.8 else others)

    def is_there(self, levels: Levels) -> bool:
        return levels in STABLE or self.state.get(Space(levels)) is not None

    def is_mine(self, folded: str) -> bool:
        return folded.startswith(f"{self.root}.") or f".{self.root}-" in folded

    def why_not_created(self, name: Name) -> tuple[int, str] | None:
        if not self.is_there(name.levels):
            return NO_NAMESPACE
        return EXISTS if self.state.get(name) is not None else None
