"""The preview of a change of grants, and the form that saves what it showed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from icekeeper.kernel.errors.types import BadRequest
from management.admin.access.grant_forms import GrantsForm, read_expiry, read_privilege
from management.admin.access.matrix import read_changes, read_pairs
from management.admin.access.objects import KIND_LABELS, access_url, describe, icon_of, key_of, label_of
from management.admin.access.principals import ICONS, principal_value, read_principal
from management.admin.navigation import Crumb
from tenancy.actor import Grantee
from tenancy.authz.permission_epoch import share_reads
from tenancy.models import Securable
from tenancy.selectors.grant_previews import Effect, GrantPreview, Pair, preview_grants_for
from tenancy.selectors.principal_names import PrincipalName
from tenancy.services.grants import (
    MAX_CHANGES,
    GrantExists,
    GrantNotFound,
    GrantsChanged,
    GrantSpec,
    apply_assignments,
    build_difference,
)

SHOWN_EFFECTS: Final = 50


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A grant or a revocation as a sentence; `field` is the name of its expiry in the form."""

    value: str
    privilege: str
    icon: str
    principal: str
    field: str = ""
    expires: str = ""


@dataclass(frozen=True, slots=True)
class EffectLine:
    icon: str
    principal: str
    gained: str
    lost: str


class PreviewPage(GrantsForm):
    """Shows the effect of the forms of the matrix, of a new grant, of a revocation, and of a form that could not be
    saved."""

    template_name = "console/grant_preview.html"

    def post(self, request: HttpRequest, *, key: str) -> HttpResponse:
        with share_reads():  # it changes nothing
            return super().post(request, key=key)

    def apply(self, request: HttpRequest) -> HttpResponse:
        if "principal" in request.POST:
            pair = (read_privilege(request.POST.get("privilege", "")), read_principal(request.POST["principal"]))
            return self.preview([], [pair])
        if "privilege" in request.POST:
            picked = self.read_grantee()
            if picked.grantee is None:
                return self.choose_grantee(picked)
            pair = (read_privilege(request.POST["privilege"]), picked.grantee)
            return self.preview([pair], [], expiries={pair: request.POST.get("expires", "")})
        changes = read_changes(request.POST)
        if not changes.grants and not changes.revocations:
            messages.info(request, _("Nothing was marked, so nothing changes."))
            return self.back(**self._view())
        return self.preview(changes.grants, changes.revocations)

    def _view(self) -> dict[str, str]:
        """Return the query of the list or the matrix that the form came from."""
        return {"view": "matrix"} if self.request.POST.get("view") == "matrix" else {}

    def preview(
        self,
        grants: Sequence[Pair],
        revocations: Sequence[Pair],
        *,
        problem: str = "",
        status: int = HTTPStatus.OK,
        expiries: Mapping[Pair, str] | None = None,
    ) -> HttpResponse:
        """Return the page with the effect that the changes have now; with `problem` if they could not be saved."""
        if len(grants) + len(revocations) > MAX_CHANGES:
            raise BadRequest(_("At most %(limit)s changes are allowed at once.") % {"limit": MAX_CHANGES})
        shown = preview_grants_for(
            actor=self.actor,
            target=self.shown.target,
            project=self.shown.project,
            grants=grants,
            revocations=revocations,
        )
        return self.render({**self._context(shown, expiries or {}), "conflict": problem}, status=status)

    def _context(self, preview: GrantPreview, expiries: Mapping[Pair, str]) -> dict[str, Any]:
        names = preview.names
        title = _("Preview of the changes")
        named = self.shown.named
        url = access_url(named, is_browsable=self.shown.is_browsable)
        effects = None if preview.effects is None else preview.effects[:SHOWN_EFFECTS]
        return {
            "title": title,
            "breadcrumb": [Crumb(label_of(named), url), Crumb(title)],
            "object_name": label_of(named),
            "object_icon": icon_of(named.securable_type),
            "access_kind": KIND_LABELS[named.securable_type],
            "grants": [
                _line(pair, names, field=f"expires-{number}", expires=expiries.get(pair, ""))
                for number, pair in enumerate(preview.grants)
            ],
            "revocations": [_line(pair, names) for pair in preview.revocations],
            "unchanged": [_line(pair, names) for pair in preview.unchanged],
            "effects": None if effects is None else [_effect(each, names, preview.withheld) for each in effects],
            "more_effects": 0 if preview.effects is None else max(0, len(preview.effects) - SHOWN_EFFECTS),
            "is_complete": preview.is_complete,
            "lost_by_viewer": ", ".join(_words(each) for each in preview.lost_by_actor),
            "below": [
                (name, [(KIND_LABELS[Securable.Type(kind)], ", ".join(privileges)) for kind, privileges in reached])
                for name, reached in preview.below
            ],
            "digest": preview.digest,
            "save_url": reverse("admin:object-save", args=[key_of(named)]),
            "view": self._view(),
            "discard_url": f"{url}?{urlencode(self._view())}#grants",
        }


class SaveForm(PreviewPage):
    """Applies what a preview showed, in one transaction, unless another user changed the same grants since then.

    If nothing was saved, the preview is shown again with everything that was filled in.
    """

    def post(self, request: HttpRequest, *, key: str) -> HttpResponse:
        return GrantsForm.post(self, request, key=key)

    def apply(self, request: HttpRequest) -> HttpResponse:
        form = request.POST
        grants, revocations = read_pairs(form, "grant"), read_pairs(form, "revoke")
        if not grants and not revocations:
            raise BadRequest(_("There is nothing to save."))
        expiries = {pair: form.get(f"expires-{number}", "") for number, pair in enumerate(grants)}
        try:
            self._save(grants, revocations, expiries, form.get("digest", ""))
        except (GrantsChanged, GrantExists, GrantNotFound):
            problem = _("Another user changed these grants since the preview. This is what your changes do now:")
            return self.preview(grants, revocations, problem=problem, status=HTTPStatus.CONFLICT, expiries=expiries)
        except BadRequest as error:
            return self.preview(grants, revocations, problem=error.message, status=error.status, expiries=expiries)
        self._report(request, grants, revocations)
        return self.back(**self._view())

    def _save(
        self, grants: Sequence[Pair], revocations: Sequence[Pair], expiries: Mapping[Pair, str], digest: str
    ) -> None:
        target = self.shown.target
        difference = build_difference(
            writes=[GrantSpec(*pair, read_expiry(expiries[pair])) for pair in grants],
            deletes=[GrantSpec(*pair) for pair in revocations],
        )
        apply_assignments(
            actor=self.actor,
            ref=target.ref,
            difference=difference,
            missing=target.missing,
            expected_digest=digest,
        )

    def _report(self, request: HttpRequest, grants: Sequence[Pair], revocations: Sequence[Pair]) -> None:
        number = len(grants) + len(revocations)
        if number == 1:
            ((privilege, grantee),) = (*grants, *revocations)
            text = (
                _("%(privilege)s on %(object)s granted to %(principal)s")
                if grants
                else _("%(privilege)s on %(object)s revoked from %(principal)s")
            )
            values = {"privilege": privilege, "object": describe(self.shown.named), "principal": self.name_of(grantee)}
            messages.success(request, text % values)
            return
        text = ngettext(
            "%(count)s change saved on %(object)s: %(grants)s granted, %(revocations)s revoked",
            "%(count)s changes saved on %(object)s: %(grants)s granted, %(revocations)s revoked",
            number,
        )
        counts = {"count": number, "grants": len(grants), "revocations": len(revocations)}
        messages.success(request, text % {**counts, "object": describe(self.shown.named)})


def _line(pair: Pair, names: Mapping[Grantee, PrincipalName], *, field: str = "", expires: str = "") -> ChangeLine:
    privilege, grantee = pair
    name = names[grantee]
    return ChangeLine(f"{privilege} {principal_value(grantee)}", privilege, ICONS[name.kind], name.name, field, expires)


def _effect(effect: Effect, names: Mapping[Grantee, PrincipalName], withheld: Collection[UUID]) -> EffectLine:
    grantee = effect.principal
    name = names[grantee].name
    if grantee.role_id in withheld:
        name = _("%(role)s, and its members, which are not visible to you") % {"role": name}
    return EffectLine(
        "user" if grantee.role_id is None else "roles",
        name,
        ", ".join(_words(each) for each in dict.fromkeys([*effect.gained_privileges, *effect.gained])),
        ", ".join(_words(each) for each in dict.fromkeys([*effect.lost_privileges, *effect.lost])),
    )


def _words(name: str) -> str:
    return name.replace("_", " ")
