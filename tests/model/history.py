"""The whole history of every table and view, told by files, answers and journals: nothing is lost, doubled or invented.

Each metadata file names in its property `op` the request that wrote it, and in its log the file before it. So the files
of a table are a chain (a tree where older versions were registered again), and for each link the model says what the
request must have made of the version before. What nobody can tell any more, because a table was dropped before anybody
looked, is not judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.model.caller import is_fleeting
from tests.model.contents import Contents, Row, read_file
from tests.model.invariants import files_below
from tests.model.journal import Fault, Journal, Outcome, Record
from tests.model.state import TABLE, VIEW, modelled
from tests.model.table_model import broken_requirement, changed, created, difference, finished, previous_files

COMMITS = {"commit", "transaction"}
MAKERS = {"create table", "finish table", "create view"}
REGISTERS = {"register table", "register view"}


@dataclass(slots=True)
class Version:
    """One metadata file. `previous` are the files in its log, the last of them the one it was made on."""

    location: str
    kind: str
    uuid: str
    op: str
    previous: tuple[str, ...]
    is_fleeting: bool
    is_checked: bool = False

    @property
    def parent(self) -> str | None:
        return self.previous[-1] if self.previous else None


class History:
    """Grows from one quiet moment to the next."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder, self.journal = folder, journal
        self.versions: dict[str, Version] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        """Of versions whose files may go."""
        self.reached: set[str] = set()
        """Versions that a table or view was, as pointers, answers and logs tell."""
        self.torn: set[str] = set()
        """Files whose writer died while it wrote them."""
        self.counted = 0

    def check(self, contents: Contents) -> None:
        """Take in what is new, then judge. Raises `Fault`."""
        files = files_below(self.folder)
        for location in files - self.versions.keys():
            try:
                self._take(location, json.loads(read_file(location)))
            except (EOFError, ValueError):
                self.torn.add(location)
        files -= self.torn
        for record in self.journal.records[self.counted :]:
            if record.document is not None and record.location not in self.versions:
                self._take(str(record.location), record.document)
        self.counted = len(self.journal.records)
        self._reach(self._known(contents))
        living = {row.uuid: row for row in contents.tabulars}
        self._files_are_explained(files, living)
        for location in sorted(self.reached):
            version = self.versions.get(location)
            if version is not None and not version.is_checked:
                self._check_link(version)
        self._once()
        registered = self._registered()
        self._one_after_the_other(registered)
        self._nothing_is_lost(living, registered)
        self._transactions_are_whole(living, registered)
        self._reads_are_fresh(registered)

    def _known(self, contents: Contents) -> Iterator[str]:
        """Where pointers are, what was answered, and what a transaction made, whose answer names nothing."""
        yield from (row.metadata_location for row in contents.tabulars)
        yield from (record.location for record in self.journal.records if record.location is not None)
        for version in self.versions.values():
            record = self._record(version)
            if record.what == "transaction" and record.outcome is Outcome.DONE and not record.may_have_left_a_file:
                yield version.location

    def _take(self, location: str, metadata: dict[str, Any]) -> None:
        kind = TABLE if "table-uuid" in metadata else VIEW
        log = tuple(entry["metadata-file"] for entry in metadata.get("metadata-log") or [])
        version = Version(
            location, kind, metadata[f"{kind}-uuid"], metadata["properties"]["op"], log, is_fleeting(metadata)
        )
        self.versions[location] = version
        if version.is_fleeting:
            self.documents[location] = metadata

    def _reach(self, locations: Iterable[str]) -> None:
        open_ones = [location for location in locations if location not in self.reached]
        while open_ones:
            location = open_ones.pop()
            if location not in self.reached:
                self.reached.add(location)
                if location in self.versions:
                    open_ones += self.versions[location].previous

    def _files_are_explained(self, files: set[str], living: dict[str, Row]) -> None:
        """A file that no table ever was is of a request whose process died; one that is gone was to go."""
        lost = sum(attempt.is_lost for record in self.journal.records for attempt in record.attempts)
        if self.torn & self.reached or len(self.torn) > lost:
            raise Fault(f"files that are no metadata: {sorted(self.torn)}; {lost} requests may have died")
        for location in files - self.reached:
            version = self.versions[location]
            record = self._record(version)
            if not record.may_have_left_a_file:
                raise Fault(f"{version.op} left the file {location}, which nothing names", version.op, version.uuid)
        for location in self.versions.keys() - files:
            version = self.versions[location]
            if version.uuid in living and not version.is_fleeting:
                raise Fault(f"the file {location} is gone, and its table lives", version.uuid, version.op)

    def _record(self, version: Version) -> Record:
        record = self.journal.by_op.get(version.op)
        if record is None:
            raise Fault(f"nobody asked for {version.location}, written by {version.op}", version.op, version.uuid)
        return record

    def _metadata(self, location: str) -> dict[str, Any] | None:
        if location in self.documents:
            return self.documents[location]
        try:
            content: dict[str, Any] = json.loads(read_file(location))
        except FileNotFoundError:
            return None
        return content

    # --- one version on top of another --------------------------------------------------------------------------

    def _check_link(self, version: Version) -> None:
        """It is what its request makes of the version before, and that was not refused."""
        version.is_checked = True
        record, metadata = self._record(version), self._metadata(version.location)
        if metadata is None:
            return
        if record.outcome is Outcome.REFUSED:
            raise Fault(f"{record.op} was refused, and yet {version.location} was made", record.op, version.uuid)
        if version.kind == VIEW:
            return
        body = record.content
        if version.parent is None:
            made = created(body) if record.what == "create table" else finished(body["updates"])
            problem = difference(made, modelled(TABLE, metadata))
        else:
            before = self._metadata(version.parent)
            if before is None:
                return
            problem = self._wrong_step(record, body, before, metadata, version)
        if problem:
            raise Fault(f"{record.op} made {version.location} wrongly: {problem}", record.op, version.uuid)

    def _wrong_step(
        self, record: Record, body: Any, before: dict[str, Any], metadata: dict[str, Any], version: Version
    ) -> str | None:
        if record.what not in COMMITS:
            return f"a {record.what} follows on {version.parent}"
        model = modelled(TABLE, before)
        all_changes, after = body.get("table-changes", [body]), modelled(TABLE, metadata)
        changes = [change for change in all_changes if _asserted_uuid(change) in {version.uuid, None}]
        if not changes:
            return "the request was for other tables"
        requirements, updates = changes[0]["requirements"], changes[0]["updates"]
        broken = broken_requirement(model, requirements)
        if broken:
            return f"the requirement {broken} did not hold"
        problem = difference(changed(model, updates), after)
        last = {"metadata-file": version.parent, "timestamp-ms": before["last-updated-ms"]}
        log = [*before.get("metadata-log", []), last][-previous_files(metadata["properties"]) :]
        if problem is None and metadata["metadata-log"] != log:
            problem = f"the metadata log is {metadata['metadata-log']}, not {log}"
        if problem is None and metadata["last-updated-ms"] < before["last-updated-ms"]:
            problem = "it is older than what it was made of"
        return problem

    def _once(self) -> None:
        """No request made two versions of one table."""
        made: dict[tuple[str, str], str] = {}
        for location in self.reached & self.versions.keys():
            version = self.versions[location]
            other = made.setdefault((version.op, version.uuid), location)
            if other != location:
                raise Fault(f"{version.op} was done twice: {other} and {location}", version.op, version.uuid)

    # --- all versions of one table ------------------------------------------------------------------------------

    def _registered(self) -> dict[str, list[Record]]:
        """The registrations that were done, or may have been, by the UUID of what they brought back."""
        found: dict[str, list[Record]] = {}
        for record in self.journal.records:
            if record.what in REGISTERS and record.outcome is not Outcome.REFUSED:
                version = self.versions.get(record.content["metadata-location"])
                if version is not None:
                    found.setdefault(version.uuid, []).append(record)
        return found

    def _one_after_the_other(self, registered: dict[str, list[Record]]) -> None:
        """Two versions follow on one only where it was registered again in between."""
        children: dict[str, list[str]] = {}
        for location in self.reached & self.versions.keys():
            parent = self.versions[location].parent
            if parent is not None:
                children.setdefault(parent, []).append(location)
        for parent, following in children.items():
            uuid = self.versions[following[0]].uuid
            again = [r for r in registered.get(uuid, []) if r.content["metadata-location"] == parent]
            if len(following) > 1 + len(again):
                ops = [self.versions[location].op for location in following]
                raise Fault(f"{ops} were all made on {parent}: one was lost", uuid, *ops)

    def _ancestors(self, location: str) -> set[str]:
        """The version and all before it, as far back as can be told."""
        found: set[str] = set()
        at: str | None = location
        while at is not None:
            found.add(at)
            version = self.versions.get(at)
            if version is None:
                break
            found.update(version.previous)
            at = next((each for each in reversed(version.previous) if each in self.versions), None)
        return found

    def _nothing_is_lost(self, living: dict[str, Row], registered: dict[str, list[Record]]) -> None:
        """What was acknowledged is in the table as it is now, unless an older version was registered after it."""
        acknowledged: dict[str, list[Record]] = {}
        for record in self.journal.records:
            if record.outcome is Outcome.DONE and record.location is not None and record.what in COMMITS | MAKERS:
                version = self.versions.get(record.location)
                if version is not None:
                    acknowledged.setdefault(version.uuid, []).append(record)
                elif record.uuid in living:
                    raise Fault(
                        f"{record.op} was acknowledged, and {record.location} is unknown", record.op, record.uuid
                    )
        for uuid, records in acknowledged.items():
            row = living.get(uuid)
            if row is None or row.kind != TABLE:
                continue
            there = self._ancestors(row.metadata_location)
            last = max((record.answered for record in registered.get(uuid, [])), default=0.0)
            for record in records:
                if record.location not in there and record.sent > last:
                    raise Fault(f"{record.op} was acknowledged, and is not in {row}", record.op, uuid, row)
        self._views_keep_tokens(living, registered)

    def _views_keep_tokens(self, living: dict[str, Row], registered: dict[str, list[Record]]) -> None:
        for record in self.journal.records:
            row = living.get(record.uuid or "")
            if record.what != "replace view" or row is None or row.uuid in registered:
                continue
            if record.outcome is Outcome.DONE and f"done {record.op}" not in row.metadata["properties"]:
                raise Fault(f"{record.op} was acknowledged, and is not in {row}", record.op, row.uuid)

    def _transactions_are_whole(self, living: dict[str, Row], registered: dict[str, list[Record]]) -> None:
        """In all tables or in none; acknowledged ones in all. A table that is gone cannot tell."""
        made: dict[str, set[str]] = {}
        for location in self.reached & self.versions.keys():
            made.setdefault(self.versions[location].op, set()).add(self.versions[location].uuid)
        for record in self.journal.records:
            if record.what != "transaction":
                continue
            uuids = {uuid for change in record.content["table-changes"] if (uuid := _asserted_uuid(change))}
            there = made.get(record.op, set())
            missing = {uuid for uuid in uuids - there if uuid in living and uuid not in registered}
            if missing and (there or record.outcome is Outcome.DONE):
                raise Fault(
                    f"transaction {record.op} is in {sorted(there)}, not in {sorted(missing)}", record.op, *missing
                )

    def _reads_are_fresh(self, registered: dict[str, list[Record]]) -> None:
        """Whoever asks after an answer sees what was acknowledged, or what came later; never what was asked later."""
        chains: dict[str, list[Record]] = {}
        for record in self.journal.records:
            version = self.versions.get(record.location or "")
            if version is None or record.outcome is not Outcome.DONE or record.what.endswith("again"):
                continue
            if version.kind == TABLE and version.uuid not in registered:
                chains.setdefault(version.uuid, []).append(record)
        for uuid, records in chains.items():
            self._check_order(uuid, records)

    def _check_order(self, uuid: str, records: list[Record]) -> None:
        place = self._places(uuid)
        records = [record for record in records if record.location in place]
        by_answer = sorted(records, key=lambda record: record.answered)
        newest, done = -1, 0
        told: Record | None = None
        for record in sorted(records, key=lambda record: record.attempts[-1].sent):
            while done < len(by_answer) and by_answer[done].answered < record.attempts[-1].sent:
                if place[str(by_answer[done].location)] > newest:
                    newest, told = place[str(by_answer[done].location)], by_answer[done]
                done += 1
            is_judged = record.what == "load" or len(record.attempts) == 1
            if is_judged and told is not None and place[str(record.location)] < newest:
                raise Fault(f"{record.op} was answered with an older version than {told.op} before", uuid, record.op)

    def _places(self, uuid: str) -> dict[str, int]:
        """The versions of a table that was never registered again, counted from the first."""
        place: dict[str, int] = {}
        own = [v for v in self.versions.values() if v.uuid == uuid and v.location in self.reached]
        waiting = {version.parent: version for version in own}
        at = waiting.get(None)
        while at is not None:
            place[at.location] = len(place)
            at = waiting.get(at.location)
        return place


def _asserted_uuid(change: dict[str, Any]) -> str | None:
    return next((each["uuid"] for each in change["requirements"] if each["type"] == "assert-table-uuid"), None)
