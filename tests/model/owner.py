"""Random work of one process on names that nobody else touches, judged by an exact sequential model.

What others do in the same namespaces, warehouse and database at the same time must not show. To add an operation, add a
method that returns a `Step` to `OPERATIONS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.model import bodies
from tests.model.caller import Answer, Caller, is_fleeting
from tests.model.journal import Fault, Outcome
from tests.model.names import STABLE, Levels, Name, fold, namespace_path, respell, spelled, tabular_path
from tests.model.state import TABLE, VIEW, Expected, Seen, Space, State, Step, Subject, mismatch
from tests.model.table_model import changed, created, finished
from tests.model.view_model import view_changed

TAKEN = frozenset({(409, "LocationAlreadyTaken")})
GONE = TAKEN | {(404, "NotFoundException")}
NO_NAMESPACE, EXISTS = (404, "NoSuchNamespaceException"), (409, "AlreadyExistsException")
NOT_FOUND = {TABLE: (404, "NoSuchTableException"), VIEW: (404, "NoSuchViewException")}
FAILED = (409, "CommitFailedException")
ARCHIVED = 8
T = TypeVar("T")

LOOKS = 0.3
"""Share of the answers after which the process looks whether it is so."""


class Owner:
    """The owned objects of one process; `base` is the location of the warehouse."""

    def __init__(self, caller: Caller, base: str) -> None:
        self.caller, self.base, self.rng = caller, base, caller.rng
        root = f"own{caller.number}"
        self.root = root
        self.spaces: list[Levels] = [(root,), (root, "a"), (root, "a", "ß"), (root, "a", "ß", "d", "e"), (root, "b")]
        self.spaces.insert(3, (root, "a", "ß", "d"))
        self.mine = [Space(levels, prefix=f"{root}-") for levels in STABLE]
        self.names = [Name(levels, f"{root}-{name}") for levels in STABLE for name in "xy"]
        self.names += [Name(levels, name) for levels in self.spaces[:2] for name in ("x", "ǆ")]
        self.state: dict[Subject, State] = {space: {} for space in self.mine}
        self.archive: list[Seen] = []
        self.purged: set[str] = set()

    def act(self) -> None:
        self.op = self.caller.token()
        [operation] = self.rng.choices(list(OPERATIONS), list(OPERATIONS.values()))
        step = operation(self)
        if step is not None:
            self.perform(step)

    def perform(self, step: Step) -> None:
        """Do it; what it came to must be what the model says."""
        about = (*step.after, *step.about)
        answer = self.caller.write(self.op, step.what, step.method, step.path, step.body, about=about)
        if answer.outcome is Outcome.UNKNOWN:
            self._find_out(step, answer)
        elif answer.outcome is Outcome.DONE:
            if step.refusal is not None:
                raise self.fault(step, f"was done; it had to be refused with {step.refusal}")
            self._adopt(step, answer)
        elif not answer.is_passing:
            expected = step.others | ({step.refusal} if step.refusal else set())
            if (answer.status, answer.error) not in expected:
                raise self.fault(step, f"was refused with {answer.status} {answer.body}, not with {step.refusal}")
        if answer.outcome is Outcome.REFUSED and self.rng.random() < LOOKS:
            for subject in step.after:
                self.confirm(subject)

    def fault(self, step: Step, message: str, *about: Any) -> Fault:
        return Fault(f"{step.what} of {self.op} {message}", self.op, *step.after, *step.about, *about)

    def confirm(self, subject: Subject) -> None:
        """It is what the model says."""
        was = self.state.get(subject)
        wrong = mismatch(was, self.look(subject))
        if wrong:
            about = [was.uuid] if isinstance(was, Seen) else []
            raise Fault(f"{subject} is not what its owner made it: {wrong}", subject, *about)

    def look(self, subject: Subject) -> State:
        if isinstance(subject, Space):
            answer = self.caller.read(namespace_path(subject.levels, self.rng), what="load namespace", about=(subject,))
            if answer.outcome is Outcome.REFUSED:
                self._require(answer, NO_NAMESPACE, subject)
                return None
            properties: dict[str, str] = answer.body["properties"]
            return {key: value for key, value in properties.items() if key.startswith(subject.prefix)}
        for kind in (TABLE, VIEW):
            answer = self.caller.read(tabular_path(kind, subject, self.rng), about=(subject,))
            if answer.outcome is Outcome.DONE:
                return Seen(kind, answer.body["metadata-location"], answer.body["metadata"])
            self._require(answer, NOT_FOUND[kind], subject)
        return None

    def _require(self, answer: Answer, refusal: tuple[int, str], subject: Any) -> None:
        if (answer.status, answer.error) != refusal:
            raise Fault(f"a look at {subject} was answered {answer.status} {answer.body}", subject)

    def _adopt(self, step: Step, answer: Answer) -> None:
        for subject, wanted in step.after.items():
            has_answer = isinstance(wanted, Expected) and "metadata" in answer.body and len(step.after) == 1
            if has_answer:
                seen: State = Seen(wanted.kind, answer.body["metadata-location"], answer.body["metadata"])  # type: ignore[union-attr]
            elif isinstance(wanted, Expected) or self.rng.random() < LOOKS:
                seen = self.look(subject)
            else:
                seen = wanted  # type: ignore[assignment]
            wrong = mismatch(wanted, seen)
            if wrong:
                raise self.fault(step, f"was acknowledged, and {subject} is wrong: {wrong}")
            self._keep(subject, seen)
            if has_answer and self.rng.random() < LOOKS:
                self.confirm(subject)

    def _find_out(self, step: Step, answer: Answer) -> None:
        """Nobody knows whether it was done: it was, wholly, or not at all."""
        self.caller.settle()
        seen = {subject: self.look(subject) for subject in step.after}
        undone = {subject: mismatch(self.state.get(subject), found) for subject, found in seen.items()}
        if not any(undone.values()):
            answer.record.found(Outcome.REFUSED, time.monotonic(), None)
            return
        wrong = {subject: mismatch(wanted, seen[subject]) for subject, wanted in step.after.items()}
        if step.refusal is not None or any(wrong.values()):
            raise self.fault(step, f"is neither done ({wrong}) nor undone ({undone})")
        locations = [found.location for found in seen.values() if isinstance(found, Seen)]
        answer.record.found(Outcome.DONE, time.monotonic(), locations[0] if len(locations) == 1 else None)
        for subject, found in seen.items():
            self._keep(subject, found)

    def _keep(self, subject: Subject, now: State) -> None:
        was = self.state.get(subject)
        if isinstance(was, Seen) and (now is None or not is_fleeting(was.metadata)):
            self.archive = [*self.archive, was][-ARCHIVED:]
        self.state[subject] = now

    # --- namespaces ---------------------------------------------------------------------------------------------

    def create_namespace(self) -> Step:
        missing = [each for each in self.spaces if not self._is_there(each) and self._is_there(each[:-1] or STABLE[0])]
        levels = self.likely(missing, [*self.spaces, (*self.spaces[4], "too deep")])
        space, properties = Space(levels), {"op": self.op}
        refusal = None
        if len(levels) > 5:
            refusal = (400, "NamespaceDepthExceeded")
        elif len(levels) > 1 and self.state.get(Space(levels[:-1])) is None:
            refusal = NO_NAMESPACE
        elif self.state.get(space) is not None:
            refusal = EXISTS
        body = {"namespace": spelled(levels, self.rng), "properties": properties}
        return Step("create namespace", "POST", "/namespaces", body, {space: properties}, refusal)

    def drop_namespace(self) -> Step:
        space = self.rng.choice([*(Space(levels) for levels in self.spaces), self.mine[0]])
        path = namespace_path(space.levels, self.rng)
        if self.state.get(space) is None:
            return Step("drop namespace", "DELETE", path, after={space: None}, refusal=NO_NAMESPACE)
        is_full = space.prefix or any(
            state is not None and subject.levels[: len(space.levels)] == space.levels and subject != space
            for subject, state in self.state.items()
        )
        refusal = (409, "NamespaceNotEmptyException") if is_full else None
        return Step("drop namespace", "DELETE", path, after={space: None}, refusal=refusal)

    def describe_namespace(self) -> Step:
        space = self.rng.choice([*(Space(levels) for levels in self.spaces[:3]), *self.mine])
        op, was = self.op, self.state.get(space)
        keys = [f"{self.root}-{index}" for index in range(4)]
        key, gone = self.rng.sample(keys, 2)
        body = {"updates": {key: op}, "removals": [gone]}
        properties = {k: v for k, v in (was or {}).items() if k != gone} | {key: op}  # type: ignore[union-attr]
        path = namespace_path(space.levels, self.rng) + "/properties"
        refusal = NO_NAMESPACE if was is None else None
        return Step("describe namespace", "POST", path, body, {space: properties}, refusal)

    # --- tables and views ---------------------------------------------------------------------------------------

    def create_table(self) -> Step:
        name, op = self.a_free_name(), self.op
        body = bodies.new_table(op, respell(name.name, self.rng), self.base, self.rng, is_shared=False)
        others = TAKEN if bodies.is_pooled(body.get("location")) else frozenset()
        path = f"{namespace_path(name.levels, self.rng)}/tables"
        after: dict[Subject, Any] = {name: Expected(TABLE, created(body))}
        return Step("create table", "POST", path, body, after, self._why_not_made(name), others)

    def stage_table(self) -> Step | None:
        """Stage a create, which changes nothing, and finish it."""
        name, op = self.a_free_name(), self.op
        body = bodies.new_table(op, respell(name.name, self.rng), self.base, self.rng, is_shared=False)
        path = f"{namespace_path(name.levels, self.rng)}/tables"
        refusal = self._why_not_made(name)
        staged = self.caller.write(op, "stage table", "POST", path, body | {"stage-create": True}, about=(name,))
        if staged.outcome is Outcome.UNKNOWN or staged.is_passing:
            return None
        if refusal is not None or staged.outcome is Outcome.REFUSED:
            if (staged.status, staged.error) != refusal:
                raise Fault(f"staging {name} was answered {staged.status} {staged.body}, not {refusal}", name, op)
            return None
        self.confirm(name)
        op = self.op = self.caller.token()
        requirements, updates = bodies.finishing(op, staged.body["metadata"], self.rng)
        others = TAKEN if bodies.is_pooled(staged.body["metadata"]["location"]) else frozenset()
        commit = {"requirements": requirements, "updates": updates}
        after: dict[Subject, Any] = {name: Expected(TABLE, finished(updates))}
        return Step("finish table", "POST", tabular_path(TABLE, name, self.rng), commit, after, None, others)

    def commit(self) -> Step:
        name, op = self.a_name(TABLE), self.op
        path, held = tabular_path(TABLE, name, self.rng), self.state.get(name)
        if not isinstance(held, Seen) or held.kind != TABLE:
            body = {"requirements": [], "updates": []}
            return Step("commit", "POST", path, body, {name: None}, NOT_FOUND[TABLE])
        commit = bodies.Commit(op, held.metadata, self.base, self.rng, is_shared=False)
        refusal = None
        if self.rng.random() < 0.1:
            commit.break_a_requirement()
            refusal = FAILED
        after: dict[Subject, Any] = {name: Expected(TABLE, changed(held.model, commit.updates))}
        others = TAKEN if commit.uses_pool else frozenset()
        return Step("commit", "POST", path, commit.body, after, refusal, others, about=(held.uuid,))

    def transaction(self) -> Step:
        """Several tables, one of which may not be there or not be as it must."""
        names, op = self.rng.sample(self.names, self.rng.randint(1, 3)), self.op
        changes, after, refusal, others = [], {}, None, frozenset()
        for index, name in enumerate(names):
            held = self.state.get(name)
            if not isinstance(held, Seen) or held.kind != TABLE:
                if self.rng.random() < 0.8:
                    continue
                refusal = refusal or NOT_FOUND[TABLE]
                changes.append({"identifier": name.as_json(self.rng), "requirements": [], "updates": []})
                continue
            commit = bodies.Commit(op, held.metadata, self.base, self.rng, is_shared=False, index=index)
            if self.rng.random() < 0.1:
                commit.break_a_requirement()
                refusal = refusal or FAILED
            others |= TAKEN if commit.uses_pool else frozenset()
            changes.append({"identifier": name.as_json(self.rng), **commit.body})
            after[name] = Expected(TABLE, changed(held.model, commit.updates))
        body = {"table-changes": changes}
        return Step("transaction", "POST", "/transactions/commit", body, after, refusal, others)

    def rename(self) -> Step:
        kind = self.rng.choice((TABLE, TABLE, VIEW))
        source, destination = self.a_name(kind), self.a_free_name()
        held, target = self.state.get(source), self.state.get(destination)
        refusal = None
        if not isinstance(held, Seen) or held.kind != kind:
            refusal = NOT_FOUND[kind]
        elif not self._is_there(destination.levels):
            refusal = NO_NAMESPACE
        elif target is not None and source != destination:
            refusal = EXISTS
        after: dict[Subject, Any] = {source: None}
        after[destination] = Expected.same(held) if isinstance(held, Seen) else None
        body = {"source": source.as_json(self.rng), "destination": destination.as_json(self.rng)}
        return Step(f"rename {kind}", "POST", f"/{kind}s/rename", body, after, refusal)

    def drop(self) -> Step:
        kind = self.rng.choice((TABLE, TABLE, VIEW))
        name = self.a_name(kind)
        held, refusal = self.state.get(name), None
        if not isinstance(held, Seen) or held.kind != kind:
            refusal = NOT_FOUND[kind]
        purge = self.rng.random() < 0.3
        if purge and isinstance(held, Seen):
            self.purged.add(held.uuid)
        path = tabular_path(kind, name, self.rng) + ("?purgeRequested=true" if purge else "")
        about = (held.uuid,) if isinstance(held, Seen) else ()
        return Step(f"drop {kind}", "DELETE", path, None, {name: None}, refusal, about=about)

    def unregister(self) -> Step:
        name = self.a_name(TABLE)
        held = self.state.get(name)
        refusal = None if isinstance(held, Seen) and held.kind == TABLE else NOT_FOUND[TABLE]
        path = tabular_path(TABLE, name, self.rng) + "/unregister"
        return Step("unregister table", "POST", path, None, {name: None}, refusal)

    def register(self) -> Step | None:
        """A version that a table or view of ours had, as a new one or in the place of what has the name."""
        if not self.archive:
            return None
        old, name = self.rng.choice(self.archive), self.a_free_name()
        overwrite = old.kind == TABLE and self.rng.random() < 0.5
        held = self.state.get(name)
        is_replaced = overwrite and isinstance(held, Seen) and held.kind == TABLE
        twins = [n for n, s in self.state.items() if isinstance(s, Seen) and s.uuid == old.uuid]
        refusal = None
        if not self._is_there(name.levels):
            refusal = NO_NAMESPACE
        elif (held is not None and not is_replaced) or (twins and not (is_replaced and twins == [name])):
            refusal = EXISTS
        others: frozenset[tuple[int, str]] = TAKEN if bodies.is_pooled(old.metadata["location"]) else frozenset()
        if old.uuid in self.purged:
            others |= GONE
        body = {"name": respell(name.name, self.rng), "metadata-location": old.location}
        body |= {"overwrite": overwrite} if old.kind == TABLE else {}
        path = namespace_path(name.levels, self.rng) + ("/register" if old.kind == TABLE else "/register-view")
        after: dict[Subject, Any] = {name: Expected.same(old)}
        return Step(f"register {old.kind}", "POST", path, body, after, refusal, others, about=(old.uuid,))

    def create_view(self) -> Step:
        name, op = self.a_free_name(), self.op
        body = bodies.new_view(op, respell(name.name, self.rng), self.base, self.rng)
        model = {
            "uuid": None, "location": body.get("location"), "properties": body["properties"],
            "versions": {1: f"select '{op}'"}, "current": 1, "log": [1],
        }  # fmt: skip
        others = TAKEN if "location" in body else frozenset()
        path = f"{namespace_path(name.levels, self.rng)}/views"
        after: dict[Subject, Any] = {name: Expected(VIEW, model)}
        return Step("create view", "POST", path, body, after, self._why_not_made(name), others)

    def replace_view(self) -> Step:
        name, op = self.a_name(VIEW), self.op
        path, held = tabular_path(VIEW, name, self.rng), self.state.get(name)
        if not isinstance(held, Seen) or held.kind != VIEW:
            return Step("replace view", "POST", path, {"updates": []}, {name: None}, NOT_FOUND[VIEW])
        uuid, refusal = held.uuid, None
        if self.rng.random() < 0.1:
            uuid, refusal = "00000000-0000-4000-8000-000000000000", FAILED
        updates = bodies.view_updates(op, self.base, self.rng)
        body = {"requirements": [{"type": "assert-view-uuid", "uuid": uuid}], "updates": updates}
        after: dict[Subject, Any] = {name: Expected(VIEW, view_changed(held.model, updates))}
        return Step("replace view", "POST", path, body, after, refusal)

    # --- reads --------------------------------------------------------------------------------------------------

    def look_at_one(self) -> None:
        subjects: list[Subject] = [*self.names, *self.mine, *(Space(levels) for levels in self.spaces)]
        self.confirm(self.rng.choice(subjects))

    def ask_whether_it_exists(self) -> None:
        name, kind = self.rng.choice(self.names), self.rng.choice((TABLE, VIEW))
        held = self.state.get(name)
        is_there = isinstance(held, Seen) and held.kind == kind
        answer = self.caller.read(tabular_path(kind, name, self.rng), method="HEAD", what="exists", about=(name,))
        if answer.status != (204 if is_there else 404):
            raise Fault(f"HEAD of the {kind} {name} was answered {answer.status}", name)

    def list_tabulars(self) -> None:
        """All pages: each own name once, whatever others do in between."""
        levels, kind = self.rng.choice([*STABLE, *self.spaces[:2]]), self.rng.choice((TABLE, VIEW))
        found = self._pages(f"{namespace_path(levels, self.rng)}/{kind}s", "identifiers", Space(levels))
        if not self._is_there(levels):
            expected = None
        else:
            held = {n for n in self.names if n.levels == levels and isinstance(self.state.get(n), Seen)}
            expected = sorted(fold(n.levels, n.name) for n in held if self.state[n].kind == kind)  # type: ignore[union-attr]
        if found is not None:
            found = sorted(name for each in found if self._is_mine(name := fold(each["namespace"], each["name"])))
        if found != expected:
            raise Fault(f"the {kind}s of {levels} are {expected}, and {found} are listed", ".".join(levels))

    def list_namespaces(self) -> None:
        parent = self.rng.choice(self.spaces[:4])
        path = "/namespaces?parent=" + namespace_path(parent, self.rng).removeprefix("/namespaces/")
        found = self._pages(path, "namespaces", Space(parent))
        expected = None
        if self._is_there(parent):
            children = [levels for levels in self.spaces if levels[:-1] == parent and self._is_there(levels)]
            expected = sorted(fold(levels) for levels in children)
        if (found if found is None else sorted(fold(levels) for levels in found)) != expected:
            raise Fault(f"the namespaces of {parent} are {expected}, and {found} are listed", Space(parent))

    def _pages(self, path: str, field: str, space: Space) -> list[Any] | None:
        found: list[Any] = []
        token: str | None = ""
        mark = "&" if "?" in path else "?"
        size = self.rng.choice((1, 2, 3, 100))
        while token is not None:
            answer = self.caller.read(f"{path}{mark}pageSize={size}&pageToken={token}", what="list", about=(space,))
            if answer.outcome is Outcome.REFUSED:
                self._require(answer, NO_NAMESPACE, space)
                return None
            found += answer.body[field]
            token = answer.body.get("next-page-token")
        return found

    # --- what operations ask ------------------------------------------------------------------------------------

    def a_name(self, kind: str) -> Name:
        """Mostly of something of the kind that is there."""
        held = [n for n in self.names if isinstance(s := self.state.get(n), Seen) and s.kind == kind]
        return self.likely(held, self.names)

    def a_free_name(self) -> Name:
        """Mostly one that has nothing, in a namespace that is there."""
        return self.likely(
            [n for n in self.names if self.state.get(n) is None and self._is_there(n.levels)], self.names
        )

    def likely(self, promising: list[T], others: list[T]) -> T:
        return self.rng.choice(promising if promising and self.rng.random() < 0.8 else others)

    def _is_there(self, levels: Levels) -> bool:
        return levels in STABLE or self.state.get(Space(levels)) is not None

    def _is_mine(self, folded: str) -> bool:
        return folded.startswith(f"{self.root}.") or f".{self.root}-" in folded

    def _why_not_made(self, name: Name) -> tuple[int, str] | None:
        if not self._is_there(name.levels):
            return NO_NAMESPACE
        return EXISTS if self.state.get(name) is not None else None


OPERATIONS: dict[Callable[[Owner], Step | None], int] = {
    Owner.create_namespace: 5, Owner.drop_namespace: 3, Owner.describe_namespace: 4,
    Owner.create_table: 6, Owner.stage_table: 3, Owner.commit: 16, Owner.transaction: 5, Owner.rename: 5, Owner.drop: 5,
    Owner.unregister: 1, Owner.register: 4, Owner.create_view: 4, Owner.replace_view: 5,
    Owner.look_at_one: 8, Owner.ask_whether_it_exists: 3, Owner.list_tabulars: 3, Owner.list_namespaces: 2,
}  # fmt: skip
