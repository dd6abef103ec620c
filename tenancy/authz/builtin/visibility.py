"""The objects of a type that a subject may see, as one SQL condition: for tables of the console.

One grant on the object, on one of its parents, or on an object below that shows it is sufficient.
`tests/authz/test_visible_rows.py` compares it with the evaluation of each object.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cache
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat, Length, Substr

from tenancy.authz.builtin.evaluation import Evaluation, Node, showing_privileges
from tenancy.authz.model import UP, rights_model
from tenancy.authz.port import Subject
from tenancy.models import Grant, Securable


class _Sources(NamedTuple):
    """What shows objects of a type: privileges by type of the object that they are granted on, and whether a visible
    object below the object, or below its parent, shows it."""

    privileges: dict[str, list[str]]
    is_shown_from_below: bool
    is_shown_from_below_parent: bool


def visible_securables(
    subject: Subject, roles: Collection[UUID], securable_type: str, relation: str, *, at: datetime
) -> QuerySet[Securable]:
    """Return the securables of a type to which the subject has `relation`, as a query that is not evaluated yet."""
    sources = _sources(securable_type, relation)
    grants = Grant.objects.unexpired(at).filter(subject.grants_filter(roles))
    shown = Q(Exists(grants.filter(securable_id=OuterRef("pk"), privilege__in=sources.privileges[securable_type])))
    for above, privileges in sources.privileges.items():
        covering = grants.filter(securable__type=above, privilege__in=privileges)
        shown |= Q(Exists(covering.filter(path=Substr(OuterRef("path"), 1, Length("path")))))
    showing = grants.filter(_is_showing())
    if sources.is_shown_from_below:
        below = showing.filter(path__path_after=OuterRef("path"), path__path_before=OuterRef("path_end"))
        shown |= Q(Exists(below))
    if sources.is_shown_from_below_parent:
        below = showing.filter(path__path_after=OuterRef("parent__path"), path__path_before=OuterRef("parent_path_end"))
        shown |= Q(Exists(below))
    rows = Securable.objects.of_type(securable_type).with_path_end()
    return rows.annotate(parent_path_end=_end_of("parent__path")).filter(shown)


def _end_of(path: str) -> Concat:
    return Concat(Substr(path, 1, Length(F(path)) - 1), Value("0"))


def _is_showing() -> Q:
    """Filter grants that show the parents of their object."""
    shows = Q()
    for securable_type, privileges in showing_privileges().items():
        shows |= Q(securable__type=securable_type, privilege__in=sorted(privileges))
    return shows


@cache
def _sources(securable_type: str, relation: str) -> _Sources:
    types = [securable_type]
    while above := [each for each in rights_model().links(types[0], UP) if each != types[0]]:
        types.insert(0, above[0])
    last = len(types) - 1

    def evaluate(level: int | None, privilege: str = "") -> Evaluation:
        relations = [frozenset({privilege}) if each == level else frozenset[str]() for each in range(len(types))]
        return Evaluation([Node(kind, str(each), relations[each]) for each, kind in enumerate(types)])

    privileges = {
        kind: [each for each in rights_model().privileges(kind) if evaluate(level, each).holds(relation)]
        for level, kind in enumerate(types)
    }
    without_grants = evaluate(None)
    without_grants.holds(relation)
    levels = {int(each) for each in without_grants.unknown_below}
    if not levels <= {last, last - 1}:
        raise NotImplementedError(f"{securable_type}: {relation} is shown from below an object above its parent")
    return _Sources(privileges, last in levels, last - 1 in levels)
