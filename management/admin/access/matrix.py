"""The matrix of principals and privileges of an object, and the changes that a form of it contains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext as _

from icekeeper.kernel.errors.types import BadRequest
from management.admin.access.objects import access_url, describe, describe_source
from management.admin.access.principals import ICONS, principal_value, read_principal
from management.templatetags.console import relative_time
from tenancy.actor import Grantee
from tenancy.authz.access_review import Rights, Source
from tenancy.authz.actions import Privilege
from tenancy.models.securable import securable_id
from tenancy.selectors.access_reviews import GrantMatrix, Names, grantee_of
from tenancy.selectors.grant_previews import Pair
from tenancy.selectors.object_reviews import Principal
from tenancy.selectors.objects import PermissionTarget

ROWS_A_PAGE: Final = 50

STATE_ICONS: Final = {"granted": "check", "expiring": "check", "inherited": "inherited", "implied": "minus", "none": ""}


@dataclass(frozen=True, slots=True)
class Cell:
    """`state` is `granted` or `expiring` for a grant on the object, else `inherited`, `implied` or `none`.

    `name` is the whole meaning of the cell in words; `value` names it in the form.
    """

    value: str
    state: str
    rest: str
    icon: str
    name: str
    is_granted: bool
    can_change: bool


@dataclass(frozen=True, slots=True)
class MatrixRow:
    icon: str
    name: str
    note: str
    is_blocked: bool
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class InheritedLine:
    """A grant to a principal on an object above."""

    icon: str
    principal: str
    privilege: str
    where: str
    url: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class MatrixView:
    privileges: Sequence[Privilege]
    rows: Sequence[MatrixRow]
    inherited: Sequence[InheritedLine]
    can_change: bool


def view_matrix(
    matrix: GrantMatrix, target: PermissionTarget, privileges: Sequence[Privilege], may_change: Collection[str]
) -> MatrixView:
    """Return the rows of a page of the matrix; cells of the privileges `may_change` can be changed."""
    own_id = securable_id(*target.ref)
    cells = _Cells(matrix, own_id, frozenset(may_change))
    inherited = [
        _inherited(principal, source, matrix.names)
        for principal, rights in matrix.entries
        for source in rights.sources
        if not source.through and source.securable_id != own_id
    ]
    rows = [
        _row(principal, [cells.cell(principal, rights, each.name) for each in privileges])
        for principal, rights in matrix.entries
    ]
    return MatrixView(privileges, rows, inherited, bool(may_change))


def _icon(principal: Principal) -> str:
    return ICONS["user" if principal.role_id is None else "role"]


def _name(principal: Principal) -> str:
    return principal.name or str(grantee_of(principal))


def _row(principal: Principal, cells: Sequence[Cell]) -> MatrixRow:
    name, note = _name(principal), principal.user_id or ""
    return MatrixRow(_icon(principal), name, "" if note == name else note, principal.is_blocked, cells)


@dataclass(frozen=True, slots=True)
class _Cells:
    matrix: GrantMatrix
    own_id: str
    may_change: frozenset[str]

    def cell(self, principal: Principal, rights: Rights, privilege: str) -> Cell:
        grantee = grantee_of(principal)
        own = self.matrix.own.get(grantee, {})
        rest, meaning = self._without_own(rights, privilege)
        state = rest
        if privilege in own:
            state, meaning = "granted", _("granted here")
            ends_at = own[privilege]
            if ends_at is not None:
                state = "expiring"
                meaning = _("granted here, expires %(when)s") % {"when": relative_time(ends_at)}
            rest = "none" if rest == "implied" else rest  # it may be implied by itself
        return Cell(
            f"{privilege} {principal_value(grantee)}",
            state,
            rest,
            STATE_ICONS[rest],
            f"{_name(principal)}: {privilege} {meaning}",
            privilege in own,
            privilege in self.may_change,
        )

    def _without_own(self, rights: Rights, privilege: str) -> tuple[str, str]:
        """Return the state of a cell without a grant on the object itself, and its meaning in words."""
        if privilege not in rights.effective.privileges:
            return "none", _("none")
        for source in rights.sources:
            if source.privilege == privilege and (source.through or source.securable_id != self.own_id):
                return "inherited", _origin(source, self.own_id, self.matrix.names)
        return "implied", _("implied by another privilege")


def _origin(source: Source, own_id: str, names: Names) -> str:
    """Return where an inherited privilege comes from, as far as the viewer may see that."""
    roles = [names.roles.get(each) or _("a role") for each in source.through]
    on = names.objects.get(source.securable_id)
    where = describe(on) if on is not None else _("an object that is not visible to you")
    if source.securable_id == own_id:
        return _("inherited by the role %(role)s") % {"role": roles[-1]} if roles else _("granted here")
    if roles:
        return _("inherited from %(object)s by the role %(role)s") % {"object": where, "role": roles[-1]}
    return _("inherited from %(object)s") % {"object": where}


def _inherited(principal: Principal, source: Source, names: Names) -> InheritedLine:
    on = names.objects.get(source.securable_id)
    return InheritedLine(
        _icon(principal),
        _name(principal),
        source.privilege,
        describe_source(source.securable_id, on),
        "" if on is None else access_url(on),
        source.expires_at,
    )


@dataclass(frozen=True, slots=True)
class MarkedChanges:
    """What a form of the matrix changes: cells that were marked, and cells whose mark was removed."""

    grants: Sequence[Pair]
    revocations: Sequence[Pair]

    @property
    def grantees(self) -> set[Grantee]:
        return {grantee for _, grantee in (*self.grants, *self.revocations)}


def read_changes(form: QueryDict) -> MarkedChanges:
    """Read `on`, the marked cells, and `had`, those that were granted when the form was shown. Raises `BadRequest`."""
    marked, had = _read_cells(form, "on"), _read_cells(form, "had")
    return MarkedChanges([each for each in marked if each not in had], [each for each in had if each not in marked])


def read_pairs(form: QueryDict, name: str) -> list[Pair]:
    """Read the values of a field as pairs of privilege and principal. Raises `BadRequest`."""
    return list(_read_cells(form, name))


def _read_cells(form: QueryDict, name: str) -> Mapping[Pair, Any]:
    found: dict[Pair, Any] = {}
    for value in form.getlist(name):
        privilege, space, principal = value.partition(" ")
        if not space or not privilege.replace("_", "").isalnum():
            raise BadRequest(f"{name}: a cell is a privilege and a principal")
        found[privilege, read_principal(principal)] = None
    return found
