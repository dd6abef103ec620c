"""Search over all warehouses: by name, column, tag, location and id.

Candidates are read in order of their rank, and their permissions are checked before any limit applies: what is hidden
from the caller neither displaces a visible hit nor is counted. For callers with few grants, only objects that these
allow them to see are candidates. The number of statements is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self
from uuid import UUID

from django.conf import settings
from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.db.models.functions import Length

from catalog.models import Namespace, Tabular
from catalog.selectors.candidates import candidate_namespaces, candidate_tabulars
from catalog.selectors.column_search import find_by_column, list_matching_columns
from icekeeper.kernel.db.sql import as_uuid, fetch_planned_rows
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import LEVEL_SEPARATOR, lookup_key
from storage.models import Warehouse
from storage.selectors import candidate_warehouses
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, visible_objects
from tenancy.authz.port import VisibleObjects
from tenancy.models import Project, Securable, TagAttachment
from tenancy.models.securable import ObjectRef

FIRST_BATCH: Final = 200
MAX_SCANNED: Final = 10_000
"""Candidates of each kind that one search checks, of a caller whose grants are too many to start from. A longer text
leaves fewer candidates."""
MAX_TEXT_LENGTH: Final = 1_000
MIN_PART_LENGTH: Final = 3
"""Shorter texts find names that begin with them: they occur inside of too many names."""


class Scope(StrEnum):
    """What is searched; its value followed by a colon is the prefix in the search box."""

    NAME = "name"
    COLUMN = "column"
    TAG = "tag"
    LOCATION = "location"
    ID = "id"


@dataclass(frozen=True, slots=True)
class SearchText:
    """A text to search for; without a scope its form decides: an id, a location, else names, columns and tags."""

    text: str
    scope: Scope | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `scope: text`, such as `tag: pii`."""
        text = text.replace("\0", "").strip()[:MAX_TEXT_LENGTH]
        prefix, colon, rest = text.partition(":")
        known = prefix.strip().lower()
        if colon and known in set(Scope) and not rest.startswith("//"):
            return cls(rest.strip(), Scope(known))
        return cls(text)

    @property
    def scopes(self) -> frozenset[Scope]:
        if self.scope is not None:
            return frozenset({self.scope})
        if parse_id(self.text) is not None:
            return frozenset({Scope.ID})
        return frozenset({Scope.LOCATION} if "://" in self.text else {Scope.NAME, Scope.COLUMN, Scope.TAG})


@dataclass(frozen=True, slots=True)
class SearchHit:
    """An object that the caller sees. `path` are the names above it.

    `tags` and `columns` are those by which it was found, of the columns the first few.
    """

    kind: str
    id: str
    name: str
    warehouse_id: UUID | None
    path: tuple[str, ...]
    rank: int
    own_id: str
    location: str = ""
    tags: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    is_by_column: bool = False
    """Whether a column matches; in a result also that the caller may read the schema."""

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(Securable.Type(self.kind), self.own_id if self.kind == "project" else UUID(self.own_id))


@dataclass(frozen=True, slots=True)
class SearchResult:
    hits: Sequence[SearchHit]
    has_more: bool
    """Whether the caller sees more hits than the limit."""


def search_for(*, actor: Actor, wanted: SearchText, projects: Sequence[Project], limit: int) -> SearchResult:
    """Return the best hits among projects (those that the caller sees), warehouses, namespaces and tabulars.

    Tags are those of `projects`. At most fifteen statements and two permission checks, whatever the number of
    warehouses.
    """
    if not wanted.text:
        return SearchResult([], has_more=False)
    visible = visible_objects(actor)
    batch = max(FIRST_BATCH, limit + 1)
    found, unread = _search(actor, wanted, projects, _READERS, visible=visible, batch=batch)
    if visible is None and unread and len(found) <= limit:
        # Most candidates are hidden.
        seen = {each.ref for each in found}
        more, _ = _search(actor, wanted, projects, unread, visible=None, batch=MAX_SCANNED)
        found += [each for each in more if each.ref not in seen]
    found += _projects(wanted, projects)
    found.sort(key=lambda each: (each.rank, len(each.name), each.kind, each.id))
    return SearchResult(_with_columns(wanted, found[:limit]), has_more=len(found) > limit)


Reader = Callable[[SearchText, "Tagged", VisibleObjects | None, int], list["SearchHit"]]
"""Reads the first candidates of a kind; with `VisibleObjects` only among those."""


def _search(
    actor: Actor,
    wanted: SearchText,
    projects: Sequence[Project],
    readers: Sequence[Reader],
    *,
    visible: VisibleObjects | None,
    batch: int,
) -> tuple[list[SearchHit], list[Reader]]:
    """Return the visible ones among the first `batch` candidates of each reader, and the readers that have more.

    At most `batch` tag attachments are read, with `visible` at most `MAX_SCANNED`.
    """
    tagged: Tagged = {}
    has_more_tags = False
    if Scope.TAG in wanted.scopes:
        limit = batch if visible is None else MAX_SCANNED
        tagged, has_more_tags = _read_tagged(wanted.text, projects, limit)
    candidates: list[SearchHit] = []
    unread: list[Reader] = []
    for read in readers:
        rows = read(wanted, tagged, visible, batch + 1)
        if has_more_tags or len(rows) > batch:
            unread.append(read)
        candidates += rows[:batch]
    return _visible(actor, candidates), unread


def _visible(actor: Actor, candidates: Sequence[SearchHit]) -> list[SearchHit]:
    """Return the visible ones; of those that were found by their name and by a column, one.

    Columns are metadata: to be found by them needs the permission to read it.
    """
    by_column = {each.ref for each in candidates if each.is_by_column}
    hits = {each.ref: each for each in reversed(candidates)}  # those by name come first
    by_name = {each.ref for each in candidates if not each.is_by_column}
    checks = [(Can.INCLUDE_IN_LIST, ref) for ref in hits] + [(Can.GET_METADATA, ref) for ref in by_column]
    allowed = check_permissions(actor, checks) if checks else []
    listed = [ref for ref, is_listed in zip(hits, allowed[: len(hits)], strict=True) if is_listed]
    readable = {ref for ref, is_readable in zip(by_column, allowed[len(hits) :], strict=True) if is_readable}
    return [replace(hits[ref], is_by_column=ref in readable) for ref in listed if ref in by_name or ref in readable]


NameCondition = tuple[Q, list[When]]
"""The condition on a name, and the ranks of the best matches."""

Tagged = dict[str, dict[UUID, list[str]]]
"""By type, and by the own id of the object: the tags on it or on its columns, as text."""


def _read_tagged(text: str, projects: Sequence[Project], limit: int) -> tuple[Tagged, bool]:
    """Return objects that have a tag of this name, or `name=value`, on themselves or on a column.

    Only tags of `projects` are read, and at most `limit` attachments; the second result is whether there are more.
    Every caller that sees an object may read its tags.
    """
    name, equals, value = text.partition("=")
    rows = TagAttachment.objects.using(settings.READ_DATABASE).filter(
        definition__project__in=[each.pk for each in projects], definition__name_key=lookup_key(name.strip())
    )
    if equals:
        rows = rows.filter(value=value.strip())
    columns = ("securable__type", "securable__object_id", "definition__name", "value")
    found: Tagged = {}
    attachments = list(rows.order_by("pk").values_list(*columns)[: limit + 1])
    for kind, own_id, shown, tagged_value in attachments[:limit]:
        label = shown if tagged_value is None else f"{shown} = {tagged_value}"
        labels = found.setdefault(kind, {}).setdefault(UUID(own_id), [])
        if label not in labels:
            labels.append(label)
    return found, len(attachments) > limit


def _by_name(column: str, key: str) -> NameCondition:
    """Return the condition on a column of name keys, and the ranks of exact names and of beginnings."""
    begins = Q(**{f"{column}__startswith": key})
    ranks = [When(**{column: key}, then=Value(0)), When(begins, then=Value(1))]
    return (begins if len(key) < MIN_PART_LENGTH else Q(**{f"{column}__contains": key})), ranks


def _condition(
    wanted: SearchText, tagged: Iterable[UUID], by_id: Callable[[UUID], Q], by_name: Callable[[str], NameCondition]
) -> tuple[Q, Any]:
    """Return the condition of a kind, and the expression of the rank."""
    condition, ranks = Q(pk__in=()), list[When]()
    if Scope.ID in wanted.scopes:
        uuid = parse_id(wanted.text)
        if uuid is not None:
            condition |= by_id(uuid)
    if Scope.NAME in wanted.scopes:
        named, ranks = by_name(lookup_key(wanted.text))
        condition |= named
    ids = list(tagged)
    if ids:
        condition |= Q(pk__in=ids)
    rank = Case(*ranks, default=Value(2), output_field=IntegerField()) if ranks else Value(0)
    return condition, rank


def _tabulars(wanted: SearchText, tagged: Tagged, visible: VisibleObjects | None, limit: int) -> list[SearchHit]:
    of_kinds = {own_id: tuple(labels) for kind in Tabular.Kind for own_id, labels in tagged.get(kind.value, {}).items()}
    condition, rank = _condition(wanted, of_kinds, lambda uuid: Q(uuid=uuid), _tabular_name)
    if Scope.LOCATION in wanted.scopes:
        condition |= _at_location(wanted.text)
    rows: QuerySet[Any] = Tabular.objects.using(settings.READ_DATABASE).live()
    rows = rows.filter(candidate_tabulars(visible), condition, warehouse__status=Warehouse.Status.ACTIVE).annotate(
        rank=rank, length=Length("name_key")
    )
    columns = (
        "rank", "pk", "kind", "uuid", "name", "location", "namespace__path", "warehouse_id", "warehouse__name",
        "warehouse__project__name",
    )  # fmt: skip
    hits = []
    for rank_of_name, own_id, kind, uuid, name, location, path, warehouse_id, warehouse, project in fetch_planned_rows(
        rows.order_by("rank", "length", "pk").values_list(*columns)[:limit]
    ):
        above = (project, warehouse, *path.split(LEVEL_SEPARATOR))
        own_uuid = as_uuid(own_id)
        hits.append(
            SearchHit(
                kind, str(as_uuid(uuid)), name, as_uuid(warehouse_id), above, rank_of_name, str(own_uuid),
                location if Scope.LOCATION in wanted.scopes else "", of_kinds.get(own_uuid, ()),
            )
        )  # fmt: skip
    return hits


def _tabular_name(key: str) -> NameCondition:
    """Match the name, or the dotted full name: the end of the namespace and the beginning of the name."""
    condition, ranks = _by_name("name_key", key)
    above, dot, name = key.rpartition(".")
    if dot and above and name:
        levels = above.replace(".", LEVEL_SEPARATOR)
        inside = Q(namespace__path_key=levels) | Q(namespace__path_key__endswith=LEVEL_SEPARATOR + levels)
        condition |= Q(name_key__startswith=name) & inside
        ranks = [*ranks, When(Q(name_key=name) & inside, then=Value(0))]
    return condition, ranks


_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "wasbs": "abfss"}


def _at_location(text: str) -> Q:
    """Match tabulars whose location begins with `text`, and those that a file or folder at `text` is in."""
    scheme, colon, rest = text.partition("://")
    location = f"{_SCHEMES.get(scheme.lower(), scheme.lower())}{colon}{rest}".rstrip("/") if colon else text.rstrip("/")
    if len(location) < MIN_PART_LENGTH:
        return Q(pk__in=())
    steps = location.split("/")
    above = ["/".join(steps[:depth]) for depth in range(4, len(steps) + 1)] if colon else []
    return Q(location__startswith=location) | Q(location__in=above[-50:])


def _namespaces(wanted: SearchText, tagged: Tagged, visible: VisibleObjects | None, limit: int) -> list[SearchHit]:
    labels = tagged.get(Securable.Type.NAMESPACE.value, {})

    def by_name(key: str) -> NameCondition:
        levels = key.replace(".", LEVEL_SEPARATOR)
        condition, ranks = _by_name("path_key", levels)
        is_last_level = Q(path_key__endswith=LEVEL_SEPARATOR + levels)
        return condition | is_last_level, [When(is_last_level, then=Value(0)), *ranks]

    condition, rank = _condition(wanted, labels, lambda uuid: Q(pk=uuid), by_name)
    rows = Namespace.objects.using(settings.READ_DATABASE).filter(
        candidate_namespaces(visible), condition, warehouse__status=Warehouse.Status.ACTIVE
    )
    rows = rows.annotate(rank=rank, length=Length("path_key")).order_by("rank", "length", "pk")
    columns = ("rank", "pk", "path", "warehouse_id", "warehouse__name", "warehouse__project__name")
    hits = []
    for found_rank, own_id, path, warehouse_id, warehouse, project in rows.values_list(*columns)[:limit]:
        *above, name = path.split(LEVEL_SEPARATOR)
        above_it = (project, warehouse, *above)
        tags = tuple(labels.get(own_id, ()))
        hits.append(
            SearchHit(
                "namespace", str(own_id), name, warehouse_id, above_it, found_rank, str(own_id), tags=tags,
            )
        )  # fmt: skip
    return hits


def _warehouses(wanted: SearchText, tagged: Tagged, visible: VisibleObjects | None, limit: int) -> list[SearchHit]:
    labels = tagged.get(Securable.Type.WAREHOUSE.value, {})
    condition, rank = _condition(wanted, labels, lambda uuid: Q(pk=uuid), lambda key: _by_name("name_key", key))
    rows = (
        Warehouse.objects.using(settings.READ_DATABASE)
        .filter(candidate_warehouses(visible), condition)
        .annotate(rank=rank)
    )
    columns = ("rank", "pk", "name", "project__name")
    return [
        SearchHit(
            "warehouse", str(own_id), name, own_id, (project,), found_rank, str(own_id),
            tags=tuple(labels.get(own_id, ())),
        )
        for found_rank, own_id, name, project in rows.order_by("rank", "pk").values_list(*columns)[:limit]
    ]  # fmt: skip


def _projects(wanted: SearchText, projects: Sequence[Project]) -> list[SearchHit]:
    """Return the matches among the projects that the caller sees."""
    key = lookup_key(wanted.text)
    hits = []
    for each in projects:
        is_named = Scope.NAME in wanted.scopes and key in lookup_key(each.name)
        if is_named or (Scope.ID in wanted.scopes and wanted.text == each.pk):
            rank = 0 if lookup_key(each.name) == key else 2
            hits.append(SearchHit("project", each.pk, each.name, None, (), rank, each.pk))
    return hits


COLUMN_RANK: Final = 3
"""Objects that have the text in their own name come before those with a column of that name."""


def _columns(wanted: SearchText, _: Tagged, visible: VisibleObjects | None, limit: int) -> list[SearchHit]:
    if Scope.COLUMN not in wanted.scopes:
        return []
    return [
        SearchHit(
            each.kind, str(each.uuid), each.name, each.warehouse_id, each.path,
            COLUMN_RANK if each.is_exact else COLUMN_RANK + 1, str(each.own_id), is_by_column=True,
        )
        for each in find_by_column(wanted.text, visible, limit)
    ]  # fmt: skip


def _with_columns(wanted: SearchText, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
    """Return `hits` with the columns that match."""
    ids = [UUID(each.own_id) for each in hits if each.is_by_column]
    columns = list_matching_columns(wanted.text, ids) if ids else {}
    return [replace(each, columns=columns.get(UUID(each.own_id), ())) if each.is_by_column else each for each in hits]


_READERS: Final[Sequence[Reader]] = (_tabulars, _namespaces, _warehouses, _columns)
