"""Verifies the history of every table and view: no lost, duplicated or invented write, and no stale read. The files
of a table form a chain, or a tree where older versions were registered again. Tables that were dropped before any
check are skipped.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.model.bodies import is_pooled
from tests.model.contents import Contents, Row
from tests.model.journal import Fault, Journal, Record, Result
from tests.model.lineage import Lineage, Version, locations
from tests.model.links import COMMITS, check_link
from tests.model.state import TABLE
from tests.model.table_model import asserted_uuid

MAKERS = {"create table", "finish table", "create view"}
Registered = dict[str, list[Record]]


class History:
    """Verifies every version at each check while no requests run, and each step between versions once."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.journal, self.lineage = journal, Lineage(folder, journal)
        self.checked: set[str] = set()

    def check(self, contents: Contents) -> None:
        """Raise `Fault` for a violation."""
        self.lineage.take_in(contents)
        for version in self.lineage.reached_versions():
            if version.location not in self.checked:
                self.checked.add(version.location)
                check_link(self.lineage, version)
        self._once()
        registered, living = self.lineage.registered(), {row.uuid: row for row in contents.tabulars}
        self._one_after_the_other(registered)
        self._nothing_is_lost(living, registered)
        self._views_keep_tokens(living, registered)
        self._transactions_are_whole(living, registered)
        self._reads_are_fresh(registered)

    def _once(self) -> None:
        """No request created two versions of one table."""
        created: dict[tuple[str, str], str] = {}
        for version in self.lineage.reached_versions():
            other = created.setdefault((version.op, version.uuid), version.location)
            if other != version.location:
                raise Fault(f"{version.op} was done twice: {other} and {version.location}", version.op, version.uuid)

    def _one_after_the_other(self, registered: Registered) -> None:
        """Two versions follow one version only where it was registered again in between."""
        children: dict[str, list[str]] = defaultdict(list)
        for version in self.lineage.reached_versions():
            if version.parent is not None:
                children[version.parent].append(version.location)
        for parent, following in children.items():
            uuid = self.lineage.versions[following[0]].uuid
            again = [each for each in registered.get(uuid, []) if each.content["metadata-location"] == parent]
            if len(following) > 1 + len(again):
                ops = [self.lineage.versions[location].op for location in following]
                raise Fault(f"{ops} all started from {parent}: one was lost", uuid, *ops)

    def _nothing_is_lost(self, living: dict[str, Row], registered: Registered) -> None:
        """Acknowledged writes are in the current table, unless an older version was registered afterwards."""
        acknowledged: dict[str, list[Record]] = defaultdict(list)
        for record in self.journal.records:
            if record.result is Result.DONE and record.location is not None and record.what in COMMITS | MAKERS:
                version = self.lineage.versions.get(record.location)
                if version is None and record.uuid in living and not _may_be_given_up(record, registered):
                    raise Fault(f"{record.op} was acknowledged, {record.location} is unknown", record.op, record.uuid)
                if version is not None:
                    acknowledged[version.uuid].append(record)
        for uuid, records in acknowledged.items():
            row = living.get(uuid)
            if row is None or row.kind != TABLE:
                continue
            there = self.lineage.ancestors(row.metadata_location)
            last = max((record.responded for record in registered.get(uuid, [])), default=0.0)
            for record in records:
                if record.location not in there and record.sent > last:
                    raise Fault(f"{record.op} was acknowledged, and is not in {row}", record.op, uuid, row)

    def _views_keep_tokens(self, living: dict[str, Row], registered: Registered) -> None:
        for record in self.journal.records:
            row = living.get(record.uuid or "")
            if record.what != "replace view" or row is None or row.uuid in registered:
                continue
            if record.result is Result.DONE and f"done {record.op}" not in row.metadata["properties"]:
                raise Fault(f"{record.op} was acknowledged, and is not in {row}", record.op, row.uuid)

    def _transactions_are_whole(self, living: dict[str, Row], registered: Registered) -> None:
        """Transactions are in all of their tables or in none; acknowledged ones in all. Dropped tables are skipped."""
        created: dict[str, set[str]] = defaultdict(set)
        for version in self.lineage.reached_versions():
            created[version.op].add(version.uuid)
        for record in self.journal.records:
            if record.what != "transaction":
                continue
            uuids = {uuid for change in record.content["table-changes"] if (uuid := asserted_uuid(change))}
            there = created.get(record.op, set())
            missing = {uuid for uuid in uuids - there if uuid in living and uuid not in registered}
            if missing and (there or record.result is Result.DONE):
                raise Fault(f"{record.op} is in {sorted(there)}, not in {sorted(missing)}", record.op, *missing)

    def _reads_are_fresh(self, registered: Registered) -> None:
        """A read after a response shows the version acknowledged by that response, or a later one."""
        shown: dict[str, list[Record]] = defaultdict(list)
        for record in self.journal.records:
            version = self.lineage.versions.get(record.location or "")
            if version is None or record.result is not Result.DONE or record.what.endswith("again"):
                continue
            if version.kind == TABLE and version.uuid not in registered:
                shown[version.uuid].append(record)
        versions: dict[str, list[Version]] = defaultdict(list)
        for version in self.lineage.reached_versions():
            versions[version.uuid].append(version)
        for uuid, records in shown.items():
            self._check_order(uuid, records, locations(versions[uuid]))

    def _check_order(self, uuid: str, records: list[Record], path: dict[str, int]) -> None:
        records = [record for record in records if record.location in path]
        by_response = sorted(records, key=lambda record: record.responded)
        newest, done = -1, 0
        reported: Record | None = None
        for record in sorted(records, key=lambda record: record.attempts[-1].sent):
            while done < len(by_response) and by_response[done].responded < record.attempts[-1].sent:
                if path[str(by_response[done].location)] > newest:
                    newest, reported = path[str(by_response[done].location)], by_response[done]
                done += 1
            # A write that was sent several times may have been executed the first time.
            is_compared = record.what == "load" or len(record.attempts) == 1
            if is_compared and reported is not None and path[str(record.location)] < newest:
                raise Fault(f"{record.op} got an older version than {reported.op} before", uuid, record.op)


def _may_be_given_up(record: Record, registered: Registered) -> bool:
    """Whether the table was dropped and registered again since: then another table may have been purged at its old
    location between two checks.
    """
    again = registered.get(str(record.uuid), [])
    return is_pooled(record.location) and any(each.responded > record.sent for each in again)
