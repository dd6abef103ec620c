"""An explanation of a permission as plain values: a verdict, rows of boxes, and the grants that would allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from management.admin.access.objects import KIND_LABELS, access_url, icon_of, label_of, page_url
from management.admin.access.principals import ICONS, principal_value
from management.admin.navigation import Text
from tenancy.actor import Grantee
from tenancy.authz.explanation import ALLOWALL
from tenancy.authz.permissions import Standing
from tenancy.authz.role_paths import Entry
from tenancy.models import Securable
from tenancy.selectors.explanations import Explained, SufficientGrant, VisibleGrant, VisibleStep
from tenancy.selectors.objects import NamedObject
from tenancy.selectors.principal_names import PrincipalName

T = Securable.Type
SHOWN_CURES: Final = 4
_ARROW: Final = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a chain. `edge` is the text on the line that leads to it; `is_privilege` sets that in monospace.

    `until` is when the privilege on the line expires, `expires_at` when the membership in the role of the box does.
    `through` are the namespaces between two boxes, which have none of their own.
    """

    icon: str
    title: Text
    note: Text = ""
    url: str = ""
    edge: Text = ""
    is_privilege: bool = False
    is_last: bool = False
    is_hidden: bool = False
    is_missing: bool = False
    expires_at: datetime | None = None
    until: datetime | None = None
    kind: Text = ""
    through: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Cure:
    privilege: str
    where: Text
    url: str


@dataclass(frozen=True, slots=True)
class GrantSource:
    """The only grant of a chain; `kind` of its object is empty where the name of the object has it."""

    grantee: str
    is_role: bool
    privilege: str
    kind: Text
    object: str


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """`verdict` is `allowed`, `denied` or `unknown`. `source` is set where a single grant is the reason.

    The first of `cures` are those nearest to the object, the others are `more_cures`.
    """

    verdict: str
    principal: str
    action: str
    source: GrantSource | None
    standing: Text
    rows: Sequence[Sequence[Box]]
    cures: Sequence[Cure]
    more_cures: Sequence[Cure]
    is_pending_delivery: bool


_STANDING: Final[dict[str, Text]] = {
    ALLOWALL: gettext_lazy("Authorization is off on this server: every user has all permissions."),
    Standing.BLOCKED.value: gettext_lazy("The user is blocked, and has no permissions until that ends."),
    Standing.EVERYBODY.value: gettext_lazy("Every registered user has this permission."),
    Standing.INSTANCE_ADMIN.value: gettext_lazy("Instance admins have this permission without a grant."),
    Standing.INTERNAL.value: gettext_lazy("The server itself has all permissions."),
}
"""Why a decision does not depend on grants."""


def view_explanation(
    explained: Explained, principal: PrincipalName, action: str, checked: NamedObject, *, grantee: Grantee | None
) -> ExplanationView:
    """Return what the page shows of an explanation for `action` on the object `checked`.

    Cures lead to the form that grants them, filled for `grantee`.
    """
    expected = explained.standing != Standing.BLOCKED and (explained.is_by_grants or explained.standing is not None)
    rows = _rows(explained.chain, principal, checked)
    if not rows and explained.standing is None and explained.is_allowed is False and not expected:
        rows = [[_first(principal), replace(_box(checked, _("no grant")), is_last=True, is_missing=True)]]
    cures = [
        Cure(each.privilege, _describe_object(each.object, checked), _grant_url(each, grantee))
        for each in explained.cures
        if explained.standing is None  # no grant changes a decision that does not depend on grants
    ]
    return ExplanationView(
        verdict="unknown" if explained.is_allowed is None else "allowed" if explained.is_allowed else "denied",
        principal=principal.name,
        action=action.replace("_", " "),
        source=_source(explained.chain, principal),
        standing="" if explained.standing is None else _STANDING.get(explained.standing, ""),
        rows=rows,
        cures=cures[:SHOWN_CURES],
        more_cures=cures[SHOWN_CURES:],
        is_pending_delivery=explained.is_allowed is not None and explained.is_allowed != expected,
    )


def _grant_url(cure: SufficientGrant, grantee: Grantee | None) -> str:
    query = {} if grantee is None else {"grantee": principal_value(grantee), "privilege": cure.privilege}
    return f"{access_url(cure.object)}?{urlencode(query)}#grants"


def _describe_object(named: NamedObject, checked: NamedObject) -> str:
    kind = KIND_LABELS[named.securable_type]
    if (named.securable_type, named.object_id) == (checked.securable_type, checked.object_id):
        return _("on this %(kind)s") % {"kind": kind}
    return (
        _("on %(kind)s %(name)s") % {"kind": kind, "name": label_of(named)}
        if _is_named(named)
        else (_("on %(name)s") % {"name": label_of(named)})
    )


def _is_named(named: NamedObject) -> bool:
    return named.name is not None or bool(named.levels)


def _source(chain: Sequence[VisibleStep | None], principal: PrincipalName) -> GrantSource | None:
    steps = [step for step in chain if step is not None and step.grant is not None]
    if len(steps) != 1 or None in chain:
        return None
    (step,) = steps
    grant = step.grant
    if grant is None or grant.through is None:
        return None
    through, named = grant.through, step.object
    is_role = bool(through) or principal.kind == "role"
    kind = KIND_LABELS[named.securable_type] if _is_named(named) else ""
    grantee = through[-1].role_name if through else principal.name
    return GrantSource(grantee, is_role, grant.privilege, kind, label_of(named))


def _rows(chain: Sequence[VisibleStep | None], principal: PrincipalName, checked: NamedObject) -> list[list[Box]]:
    """Return a row for each grant of the chain, from the principal to the object that the grant leads to."""
    rows: list[list[Box]] = []
    previous: NamedObject | None = None
    for step in chain:
        if step is None:
            if not rows:
                rows.append([_first(principal)])
            rows[-1].append(Box("lock", _("not visible to you"), edge=_("by a grant"), is_hidden=True))
            previous = None
            continue
        if step.grant is not None:
            rows.append([_first(principal), *_roles(step.grant), _granted(step, step.grant)])
        elif previous is None or _same(previous, step.object):
            if not rows or previous is None:
                rows = rows or [[_first(principal)]]
                rows[-1].append(_box(step.object, _("leads to")))
        else:
            _append_object(rows[-1], _box(step.object, _link(previous, step.object)))
        previous = step.object
    if rows and previous is not None and _same(previous, checked):
        rows[-1][-1] = replace(rows[-1][-1], is_last=True)
    return rows


def _append_object(row: list[Box], box: Box) -> None:
    """Add the next object; one between two others becomes a text in the box after it."""
    last = row[-1]
    if last.edge == box.edge and not last.is_hidden and not last.is_privilege:
        row.pop()
        through = (*last.through, last.title)
        names = _ARROW.join(str(each) for each in through)
        note = _("%(kind)s, through %(names)s") % {"kind": box.kind, "names": names}
        box = replace(box, note=note, through=through)
    row.append(box)


def _first(principal: PrincipalName) -> Box:
    return Box(ICONS[principal.kind], principal.name, _("role") if principal.kind == "role" else _("user"))


def _roles(grant: VisibleGrant) -> list[Box]:
    if grant.through is None:
        return [Box("lock", _("roles not visible to you"), edge=_("member of"), is_hidden=True)]
    return [
        Box(
            "roles",
            each.role_name,
            _("role, from the sign-in") if each.entry is Entry.TOKEN else _("role"),
            reverse("admin:role-access", args=[each.role_id]),
            edge=_("owner of") if each.entry is Entry.OWNER else _("member of"),
            expires_at=each.expires_at,
        )
        for each in grant.through
        if each.entry is not Entry.ASSUMED  # it is the principal
    ]


def _granted(step: VisibleStep, grant: VisibleGrant) -> Box:
    return replace(_box(step.object, grant.privilege), is_privilege=True, until=grant.expires_at)


def _box(named: NamedObject, edge: str) -> Box:
    kind = KIND_LABELS[named.securable_type]
    title = (named.levels[-1] if named.levels and named.name is None else named.name) or label_of(named)
    return Box(icon_of(named.securable_type), title, kind, page_url(named), edge, kind=kind)


def _same(one: NamedObject, other: NamedObject) -> bool:
    return (one.securable_type, one.object_id) == (other.securable_type, other.object_id)


_DEPTHS: Final = {T.SERVER: 0, T.PROJECT: 1, T.WAREHOUSE: 2, T.ROLE: 2, T.TAG: 2, T.NAMESPACE: 3}


def _link(above: NamedObject, below: NamedObject) -> str:
    is_down = (_depth(above), len(above.levels)) < (_depth(below), len(below.levels))
    return _("contains") if is_down else _("is in")


def _depth(named: NamedObject) -> int:
    return _DEPTHS.get(named.securable_type, 4)
