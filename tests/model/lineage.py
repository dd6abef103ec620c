"""Every version of every table and view in files and responses, and the order of these versions.

Each metadata file names in its property `op` the request that wrote it, and in its log the files before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.model.bodies import is_pooled
from tests.model.caller import is_fleeting
from tests.model.contents import Contents, Row, files_below, read_file
from tests.model.journal import Fault, Journal, Record, Result
from tests.model.state import TABLE, VIEW

REGISTERS = {"register table", "register view"}


@dataclass(slots=True)
class Version:
    """One metadata file. `previous` are the files in its log, the last of them the one that it is based on."""

    location: str
    kind: str
    uuid: str
    op: str
    previous: tuple[str, ...]
    is_fleeting: bool

    @property
    def parent(self) -> str | None:
        return self.previous[-1] if self.previous else None


class Lineage:
    """Grows with each check; `folder` is the warehouse."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder, self.journal = folder, journal
        self.versions: dict[str, Version] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        """Of versions whose files may go."""
        self.reached: set[str] = set()
        """Versions that were current once, according to pointers, responses and logs."""
        self.torn: set[str] = set()
        """Files whose writer died while it wrote them."""
        self.counted = 0

    def take_in(self, contents: Contents) -> None:
        """Add new versions. Raises `Fault` for a file that belongs to no request."""
        files = files_below(self.folder)
        for location in files - self.versions.keys():
            try:
                self._take(location, json.loads(read_file(location)))
            except (EOFError, ValueError):
                self.torn.add(location)
        for record in self.journal.records[self.counted :]:
            if record.document is not None and record.location not in self.versions:
                self._take(str(record.location), record.document)
        self.counted = len(self.journal.records)
        self._reach(self._known(contents))
        self._files_are_explained(files - self.torn, {row.uuid: row for row in contents.tabulars})

    def reached_versions(self) -> list[Version]:
        return [self.versions[location] for location in self.reached & self.versions.keys()]

    def registered(self) -> dict[str, list[Record]]:
        """Return the registrations that were executed, or may have been, by the UUID of the registered table."""
        found: dict[str, list[Record]] = {}
        for record in self.journal.records:
            if record.what in REGISTERS and record.result is not Result.REFUSED:
                version = self.versions.get(record.content["metadata-location"])
                if version is not None:
                    found.setdefault(version.uuid, []).append(record)
        return found

    def ancestors(self, location: str) -> set[str]:
        """Return the version and all known versions before it."""
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

    def _known(self, contents: Contents) -> Iterator[str]:
        """Return pointers, versions in responses, and those that a transaction created, whose response names no
        versions.
        """
        yield from (row.metadata_location for row in contents.tabulars)
        yield from (record.location for record in self.journal.records if record.location is not None)
        for version in self.versions.values():
            record = self.record_of(version)
            if record.what == "transaction" and record.result is Result.DONE and not record.may_have_left_a_file:
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
        """A file that was never current is of a request whose process died; a missing file was to be deleted."""
        lost = sum(attempt.is_lost for record in self.journal.records for attempt in record.attempts)
        if self.torn & self.reached or len(self.torn) > lost:
            raise Fault(f"files that are no metadata: {sorted(self.torn)}; {lost} requests may have died")
        for location in files - self.reached:
            version = self.versions[location]
            record = self.record_of(version)
            if not record.may_have_left_a_file:
                raise Fault(f"{version.op} left the file {location}, which nothing names", version.op, version.uuid)
        for location in self.versions.keys() - files:
            version = self.versions[location]
            row = living.get(version.uuid)
            if row is not None and not version.is_fleeting and not self._was_given_up(version, row, files):
                raise Fault(f"the file {location} is deleted, and its table exists", version.uuid, version.op)

    def _was_given_up(self, version: Version, row: Row, files: set[str]) -> bool:
        """Whether the table was registered again from an older version, without this file in its log.

        A table that is dropped without purge or unregistered releases all of its locations. After a registration,
        only locations of later versions are reserved again; the others may be purged with another table there. At
        shared locations that can be any table, elsewhere the table itself, registered from there before: then all of
        its files are deleted.
        """
        again = self.registered().get(version.uuid, [])
        if not again or not (is_pooled(version.location) or self._may_have_been_purged_before(again, version, files)):
            return False
        sources = {str(record.content["metadata-location"]) for record in again}
        given_up = set().union(*(self.ancestors(source) - {source} for source in sources))
        held = {row.metadata_location, *(self.ancestors(row.metadata_location) - given_up)}
        return version.location not in held

    def _may_have_been_purged_before(self, again: list[Record], version: Version, files: set[str]) -> bool:
        """Whether the folder is empty, and a table was purged after the creation of the version and between two
        registrations of it.
        """
        folder = version.location.rpartition("/")[0] + "/"
        if any(file.startswith(folder) for file in files):
            return False
        created, times = self.record_of(version).sent, sorted(record.responded for record in again)
        first, last = max(times[0], created), times[-1]
        return any(
            record.is_purge
            and record.result is not Result.REFUSED
            and first <= record.responded
            and record.sent <= last
            for record in self.journal.records
        )

    def record_of(self, version: Version) -> Record:
        record = self.journal.by_op.get(version.op)
        if record is None:
            raise Fault(f"no request asked for {version.location}, written by {version.op}", version.op, version.uuid)
        return record

    def metadata_at(self, location: str) -> dict[str, Any] | None:
        if location in self.documents:
            return self.documents[location]
        try:
            content: dict[str, Any] = json.loads(read_file(location))
        except FileNotFoundError:
            return None
        return content


def locations(versions: list[Version]) -> dict[str, int]:
    """Return the versions of one table that was never registered again, by number from the first."""
    path: dict[str, int] = {}
    following = {version.parent: version.location for version in versions}
    at = following.get(None)
    while at is not None:
        path[at] = len(path)
        at = following.get(at)
    return path
