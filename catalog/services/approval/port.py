"""The port of contract verifiers: a proposed change of an object, and what approves or rejects it.

A class of your own is named by `ICEKEEPER__CONTRACT_VERIFIERS`; the kinds of rules of this server are others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from catalog.iceberg.metadata_diff import diff_metadata
from catalog.identifiers import Identifier, Levels, dotted
from catalog.services.approval.tags import TagReader
from tenancy.actor import Actor
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id

Metadata = Mapping[str, Any]


class ChangeAction(StrEnum):
    """What a request is about to do with an object."""

    CREATE = "create"
    STAGE = "stage"
    """Stage the creation of a table: a later commit, which is a `create` again, finishes it."""
    REGISTER = "register"
    """With a current object: it is replaced."""
    COMMIT = "commit"
    """A new version of a table or view."""
    UPDATE_PROPERTIES = "update-properties"
    """Of a namespace; those of tables and views change by commits."""
    RENAME = "rename"
    """Also to another namespace, and a move of a namespace."""
    DROP = "drop"
    UNDROP = "undrop"


def read_nothing() -> Metadata | None:
    """Return the current metadata of an object that does not exist."""
    return None


@dataclass(frozen=True, kw_only=True)
class ProposedChange:
    """A change before anything of it is written.

    `levels` and `name` are those of the object now, of a new object those that it gets; a namespace has no `name`.
    `object_id` is the internal id of an existing object, `uuid` the one that clients see. `namespace_id` is the
    namespace that the object is in or is created in, of an existing namespace its own; None at the top of a warehouse.
    `destination` and `destination_namespace_id` are those of a rename or move. `current` and `proposed` must not be
    modified; namespaces and generic tables have only `properties` (and what the request has). `updates` are those of
    a commit as sent. `contents` are the first names of what is dropped with a namespace, and `content_count` their
    number; each of these objects is a proposed change of its own, with `is_nested`.
    """

    action: ChangeAction
    object_type: Securable.Type
    actor: Actor
    project_id: str
    warehouse_id: UUID
    levels: Levels
    name: str | None = None
    object_id: UUID | None = None
    uuid: UUID | None = None
    namespace_id: UUID | None = None
    destination: tuple[Levels, str | None] | None = None
    destination_namespace_id: UUID | None = None
    read_current: Callable[[], Metadata | None] = read_nothing
    proposed: Metadata | None = None
    updates: Sequence[Any] = ()
    find_removed_snapshots: Callable[[], Sequence[int]] = list
    contents: Sequence[str] = ()
    content_count: int = 0
    is_nested: bool = False
    tags: TagReader = field(default_factory=TagReader)

    @cached_property
    def current(self) -> Metadata | None:
        """The current metadata, read when it is needed first; None for a new object."""
        return self.read_current()

    @cached_property
    def removed_snapshot_ids(self) -> Sequence[int]:
        """The snapshots that a commit or a replacement removes from a table, found when they are needed first."""
        return self.find_removed_snapshots()

    @cached_property
    def diff(self) -> dict[str, Any]:
        """The differences: see `diff_metadata`. Empty for changes that have no proposed metadata."""
        return {} if self.proposed is None else diff_metadata(self.current, self.proposed)

    @cached_property
    def object_tags(self) -> Mapping[str, str | None]:
        """The tags of an existing object, own and inherited: values by look-up key, None for a marker."""
        return {} if self.own_id is None else self.tags.on_object(self.own_id)

    @cached_property
    def column_tags(self) -> Mapping[int, Mapping[str, str | None]]:
        """The tags of the columns of an existing table by field id, as `object_tags`."""
        return {} if self.own_id is None else self.tags.on_columns(self.own_id)

    @property
    def own_id(self) -> str | None:
        """The securable of an existing object."""
        return None if self.object_id is None else securable_id(self.object_type, self.object_id)

    @property
    def ref(self) -> ObjectRef:
        """The existing object, of a new one the namespace or warehouse that it is created in."""
        if self.object_id is not None:
            return ObjectRef(self.object_type, self.object_id)
        if self.namespace_id is not None:
            return ObjectRef(Securable.Type.NAMESPACE, self.namespace_id)
        return ObjectRef(Securable.Type.WAREHOUSE, self.warehouse_id)

    @property
    def new_name(self) -> tuple[Levels, str | None]:
        """Levels and name after the change."""
        return (self.levels, self.name) if self.destination is None else self.destination

    def __str__(self) -> str:
        named = dotted(self.levels) if self.name is None else Identifier(self.levels, self.name)
        return f"{self.object_type.value.replace('-', ' ')} {named}"


class ContractVerifier(ABC):
    """Approves or rejects changes. Instances are shared by threads and must not keep what they see.

    A verifier of `ICEKEEPER__CONTRACT_VERIFIERS` is created without arguments and asked about every change of the
    server; an exception that it raises rejects the change. It runs in the request, before each attempt of a write and
    outside of database transactions, so it must be fast. `name` is shown to clients.
    """

    name: ClassVar[str] = ""
    is_remote: ClassVar[bool] = False
    """Whether it asks another server: then it is asked last, and once about a namespace with everything in it."""

    @abstractmethod
    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        """Return why the change is not allowed, a sentence each without full stop; nothing if it is allowed."""
