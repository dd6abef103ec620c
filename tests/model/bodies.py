"""Random request bodies for the metadata that a client sees, like those of engines, each with the token of its request.

The property `op` of each metadata file is the token of the request that wrote it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from tests.catalog_fixtures import finishing_updates
from tests.model.caller import FLEETING
from tests.model.table_model import MAX_PREVIOUS_FILES, ROW_LINEAGE

Updates = list[dict[str, Any]]
Requirements = list[dict[str, Any]]

MAX_SNAPSHOTS = 8
MAX_SCHEMAS = 4
BRANCHES = ("b1", "b2")
POOL = 10
"""Locations that all processes request; some contain others."""


def new_table(op: str, name: str, base: str, rng: random.Random, *, is_shared: bool) -> dict[str, Any]:
    """Return a CreateTableRequest."""
    properties = {"op": op, "format-version": rng.choice("1223")}
    if rng.random() < 0.3:
        properties["write.metadata.compression-codec"] = "gzip"
    if rng.random() < 0.3:
        properties[MAX_PREVIOUS_FILES] = rng.choice("123")
    if rng.random() < 0.25:
        properties |= {FLEETING: "true", MAX_PREVIOUS_FILES: "3"}
    if rng.random() < 0.15:
        properties["write.metadata.path"] = pooled(base, rng) if is_shared else f"{base}/logs/{op}"
    fields = [{"id": 7, "name": "id", "type": "long", "required": True},
              {"id": 5, "name": "text", "type": "string", "required": False}]  # fmt: skip
    body: dict[str, Any] = {"name": name, "schema": {"type": "struct", "fields": fields}, "properties": properties}
    where = rng.random()
    if where < 0.15:
        body["location"] = f"{base}/own-{op}"
    elif where < 0.3:
        body["location"] = pooled(base, rng)
    return body


def pooled(base: str, rng: random.Random) -> str:
    return f"{base}/pool-{rng.randrange(POOL)}" + rng.choice(("", "", "/inner", "/inner/most"))


def is_pooled(location: object) -> bool:
    return "/pool-" in str(location)


def finishing(op: str, metadata: dict[str, Any], rng: random.Random) -> tuple[Requirements, Updates]:
    """Return the commit that creates a staged table."""
    updates: Updates = [
        *finishing_updates(metadata),
        {"action": "set-properties", "updates": metadata["properties"] | {"op": op}},
    ]
    if rng.random() < 0.5:
        updates += append(metadata, "main", snapshot_id_of(op))[1]
    return [{"type": "assert-create"}], updates


def snapshot_id_of(op: str) -> int:
    process, count = op.removeprefix("p").split("-")
    return int(process) * 1_000_000 + int(count)


def append(metadata: dict[str, Any], branch: str, snapshot_id: int) -> tuple[Requirements, Updates]:
    """Return a snapshot on top of a branch, with the assertion of its head; a new branch begins at the head of main."""
    refs = metadata.get("refs") or {}
    head = refs.get(branch, {}).get("snapshot-id")
    parent = head if head is not None else refs.get("main", {}).get("snapshot-id")
    version = metadata["format-version"]
    created: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", "added-records": "1"},
        "schema-id": metadata["current-schema-id"],
    }
    if version > 1:
        created["sequence-number"] = (metadata.get("last-sequence-number") or 0) + 1
    if version >= ROW_LINEAGE:
        created |= {"first-row-id": metadata["next-row-id"], "added-rows": 10}
    if parent is not None:
        created["parent-snapshot-id"] = parent
    return [{"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": head}], [
        {"action": "add-snapshot", "snapshot": created},
        {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": snapshot_id},
    ]


class Commit:
    """A commit to the table of `metadata`; `base` is the warehouse's location.

    `is_shared`: other processes commit to it too. `index` numbers the tables of one transaction, each of which
    asserts its UUID. To add a kind of update, add a method to `KINDS`.
    """

    def __init__(
        self,
        op: str,
        metadata: dict[str, Any],
        base: str,
        rng: random.Random,
        *,
        is_shared: bool,
        index: int | None = None,
    ) -> None:
        self.op, self.metadata, self.base, self.rng, self.is_shared = op, metadata, base, rng, is_shared
        self.process = op.split("-", maxsplit=1)[0]
        self.location = f"{op}-{index or 0}"
        self.uses_pool = False
        self.schema_id: int | None = None  # of the schema that this commit adds
        self.requirements: Requirements = []
        self.updates: Updates = []
        if is_shared or index is not None or rng.random() < 0.5:
            self.requirements.append({"type": "assert-table-uuid", "uuid": metadata["table-uuid"]})
        kinds = list(KINDS)
        for kind in dict.fromkeys(rng.choices(kinds, list(KINDS.values()), k=rng.choice((1, 1, 1, 2)))):
            kind(self)
        self.updates.append({"action": "set-properties", "updates": {"op": op}})

    @property
    def body(self) -> dict[str, Any]:
        return {"requirements": self.requirements, "updates": self.updates}

    def break_a_requirement(self) -> None:
        """Change the commit to one that must be rejected."""
        wrong = [
            {"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
            {"type": "assert-current-schema-id", "current-schema-id": 999},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 999},
        ]
        self.requirements.append(self.rng.choice(wrong))

    @property
    def _upgrades(self) -> bool:
        return any(update["action"] == "upgrade-format-version" for update in self.updates)

    @property
    def _refs(self) -> dict[str, Any]:
        return self.metadata.get("refs") or {}

    def properties(self) -> None:
        mine = [f"{self.process}-{index}" for index in range(3)]
        self.updates.append({"action": "set-properties", "updates": {self.rng.choice(mine): self.op}})
        if self.rng.random() < 0.3:
            self.updates.append({"action": "remove-properties", "removals": [self.rng.choice(mine), "missing"]})

    def append(self) -> None:
        if self._upgrades:
            return
        branch = self.rng.choice(("main", "main", *BRANCHES))
        requirements, updates = append(self.metadata, branch, snapshot_id_of(self.op))
        if self.schema_id is not None:
            updates[0]["snapshot"]["schema-id"] = self.schema_id
        self.requirements += requirements
        self.updates += updates

    def tag(self) -> None:
        """Tag the head of main, with the assertion that it does not change until then."""
        if "main" in self._refs and not any(update["action"] == "add-snapshot" for update in self.updates):
            head = self._refs["main"]["snapshot-id"]
            self._hold("main")
            self.updates.append(
                {"action": "set-snapshot-ref", "ref-name": f"t{self.process}", "type": "tag", "snapshot-id": head}
            )

    def remove_ref(self) -> None:
        removed = [name for name in self._refs if name != "main"]
        if removed and not self.updates:
            self.updates.append({"action": "remove-snapshot-ref", "ref-name": self.rng.choice(removed)})

    def expire(self) -> None:
        """Expire snapshots without a reference in the metadata, with the assertion that the other heads do not
        change.
        """
        if self.updates:
            return
        named = {ref["snapshot-id"] for ref in self._refs.values()}
        old = [each["snapshot-id"] for each in self.metadata.get("snapshots") or []]
        removed = [snapshot_id for snapshot_id in old if snapshot_id not in named][: self.rng.randint(1, MAX_SNAPSHOTS)]
        if removed:
            for name in self._refs:
                self._hold(name)
            self.updates += [{"action": "remove-snapshots", "snapshot-ids": [snapshot_id]} for snapshot_id in removed]

    def schema(self) -> None:
        """Add a column, and remove schemas that no snapshot uses."""
        schemas, current = self.metadata["schemas"], self.metadata["current-schema-id"]
        last = self.metadata["last-column-id"]
        [now] = [each for each in schemas if each["schema-id"] == current]
        column = {"id": last + 1, "name": f"c{last + 1} {self.op}", "type": "int", "required": False}
        self.requirements += [
            {"type": "assert-current-schema-id", "current-schema-id": current},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": last},
        ]
        kept = [field for field in now["fields"] if not field["name"].startswith("c")]
        self.updates += [
            {"action": "add-schema", "schema": {"type": "struct", "fields": [*kept, column]}},
            {"action": "set-current-schema", "schema-id": -1},
        ]
        self.schema_id = max(each["schema-id"] for each in schemas) + 1
        if len(schemas) > MAX_SCHEMAS:
            self.updates.append({"action": "remove-schemas", "schema-ids": [each["schema-id"] for each in schemas]})

    def move(self) -> None:
        location = f"{self.base}/moved-{self.location}"
        if self.rng.random() < 0.5:
            location, self.uses_pool = pooled(self.base, self.rng), True
        self.updates.append({"action": "set-location", "location": location})

    def metadata_files(self) -> None:
        """Set properties of metadata files: location, compression, number of previous files."""
        folder = f"{self.base}/logs/{self.location}"
        if self.is_shared and self.rng.random() < 0.5:
            folder, self.uses_pool = pooled(self.base, self.rng), True
        codec, most = self.rng.choice(("gzip", "none")), self.rng.choice("1234")
        chosen = self.rng.randrange(4)
        if chosen == 0:
            self.updates.append({"action": "set-properties", "updates": {"write.metadata.path": folder}})
        elif chosen == 1:
            self.updates.append({"action": "remove-properties", "removals": ["write.metadata.path"]})
        elif chosen == 2:
            self.updates.append({"action": "set-properties", "updates": {"write.metadata.compression-codec": codec}})
        elif self.metadata.get("properties", {}).get(FLEETING) != "true":
            self.updates.append({"action": "set-properties", "updates": {MAX_PREVIOUS_FILES: most}})

    def upgrade(self) -> None:
        version = self.metadata["format-version"]
        if version < ROW_LINEAGE and not self.updates:
            self.updates.append({"action": "upgrade-format-version", "format-version": version + 1})

    def _hold(self, name: str) -> None:
        held = {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": self._refs[name]["snapshot-id"]}
        if held not in self.requirements:
            self.requirements.append(held)


KINDS: dict[Callable[[Commit], None], int] = {
    Commit.append: 10, Commit.properties: 6, Commit.schema: 3, Commit.tag: 2, Commit.remove_ref: 2, Commit.expire: 4,
    Commit.move: 2, Commit.metadata_files: 3, Commit.upgrade: 1,
}  # fmt: skip


def new_view(op: str, name: str, base: str, rng: random.Random) -> dict[str, Any]:
    """Return a CreateViewRequest."""
    body = {
        "name": name,
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "int", "required": False}]},
        "view-version": view_version(op),
        "properties": {"op": op},
    }
    return body | ({"location": pooled(base, rng)} if rng.random() < 0.2 else {})


def view_version(op: str) -> dict[str, Any]:
    return {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": int(time.time() * 1000),
        "summary": {"engine-name": op},
        "representations": [{"type": "sql", "sql": f"select '{op}'", "dialect": "spark"}],
        "default-namespace": ["calm"],
    }


def view_updates(op: str, base: str, rng: random.Random) -> Updates:
    """Return updates of a view; tokens are only added, because no log of a view names earlier files."""
    updates: Updates = [{"action": "set-properties", "updates": {"op": op, f"done {op}": "yes"}}]
    chosen = rng.random()
    if chosen < 0.6:
        updates += [
            {"action": "add-view-version", "view-version": view_version(op)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
    elif chosen < 0.7:
        updates.append({"action": "set-location", "location": f"{base}/moved-{op}"})
    elif chosen < 0.8:
        updates.append({"action": "remove-properties", "removals": ["missing"]})
    return updates
