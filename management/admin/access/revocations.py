"""Revocation of several grants of one principal: the preview of its effect, and the form that saves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.objects import ObjectKey, name_objects, resolve_objects
from icekeeper.kernel.errors.types import BadRequest, CatalogError, NotFound
from icekeeper.kernel.ids import parse_id
from management.admin.access.grant_forms import read_privilege
from management.admin.access.objects import IN_WAREHOUSES
from management.admin.access.principal_grants import ObjectCell, object_cell, shown_principal
from management.admin.access.principals import grants_url, principal_value, read_principal
from management.admin.navigation import Crumb
from management.admin.pages import Page
from tenancy.authz.permission_epoch import share_reads
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.access_reviews import visible_ids_of
from tenancy.selectors.grants import require_permission_to_read_grants
from tenancy.selectors.objects import NamedObject, target_project
from tenancy.selectors.projects import get_visible_project_for
from tenancy.selectors.revocation_previews import Revocation, no_such_object, preview_revocations_for
from tenancy.services.grants import GrantSpec, apply_assignments, build_difference

T = Securable.Type
MAX_REVOCATIONS: Final = 50
"""At once: as many as a page of grants has."""


class RevocationsPage(Page):
    """Shows what the chosen revocations take from the principal, and saves them, each object in its own transaction."""

    template_name = "console/revocations.html"
    section = "grants"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:grants"))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = request.POST
        self.project = get_visible_project_for(actor=self.actor, given=form.get("project") or None)
        self.grantee = read_principal(form.get("who", ""))
        values = list(dict.fromkeys(form.getlist("revoke")))
        if len(values) > MAX_REVOCATIONS:
            raise BadRequest(_("At most %(limit)s changes are allowed at once.") % {"limit": MAX_REVOCATIONS})
        if not values:
            messages.info(request, _("Nothing was marked, so nothing changes."))
            return self.back()
        if form.get("action") == "save":
            return self._save(request, values)
        with share_reads():  # it changes nothing
            return self._preview(values)

    def back(self) -> HttpResponse:
        url = grants_url(principal_value(self.grantee))
        return HttpResponseRedirect(f"{url}&project={self.project.pk}")

    def _preview(self, values: Sequence[str]) -> HttpResponse:
        # Before the look-up of ids, whose result reveals that hidden objects exist.
        require_permission_to_read_grants(self.actor, target_project(self.project), self.grantee)
        read = _read_revocations(values)
        revocations = [each for each in read if each is not None]
        if len(revocations) < len(read):
            raise no_such_object()
        effects = preview_revocations_for(
            actor=self.actor, project=self.project, grantee=self.grantee, revocations=revocations
        )
        ids = [securable_id(*each.ref) for each in revocations]
        names = name_objects(visible_ids_of(self.actor, ids))
        principal = shown_principal(self.grantee)
        title = _("Revoke grants")
        lines = [
            {
                "value": value,
                "digest": effect.digest,
                "privilege": effect.revocation.privilege,
                "on": _cell(value, names.get(securable_id(*effect.revocation.ref))),
                "lost": ", ".join(dict.fromkeys(each.replace("_", " ") for each in effect.lost)),
            }
            for value, effect in zip(values, effects, strict=True)
        ]
        url = f"{grants_url(principal_value(self.grantee))}&project={self.project.pk}"
        context = {
            "title": title,
            "breadcrumb": [Crumb(_("Grants"), url), Crumb(title)],
            "principal": principal,
            "is_role": self.grantee.role_id is not None,
            "lines": lines,
            "project_id": self.project.pk,
            "save_url": reverse("admin:revocations"),
            "discard_url": url,
        }
        return self.render(context)

    def _save(self, request: HttpRequest, values: Sequence[str]) -> HttpResponse:
        revocations = _read_revocations(values)
        missing = NotFound(_("This object does not exist, or you do not have the permission to see it."))
        digests = dict(zip(values, request.POST.getlist("digest"), strict=False))
        by_object: dict[ObjectRef, list[tuple[str, Revocation]]] = {}
        for value, each in zip(values, revocations, strict=True):
            if each is not None:
                by_object.setdefault(each.ref, []).append((value, each))
        saved, problems = 0, [missing.message for each in revocations if each is None]
        for ref, chosen in by_object.items():
            specs = [GrantSpec(revocation.privilege, self.grantee) for _value, revocation in chosen]
            try:
                apply_assignments(
                    actor=self.actor,
                    ref=ref,
                    difference=build_difference(writes=[], deletes=specs),
                    missing=missing,
                    expected_digest=digests.get(chosen[0][0], ""),
                )
            except CatalogError as error:
                if error.status >= 500:  # noqa: PLR2004
                    raise
                problems.append(error.message)
            else:
                saved += len(chosen)
        if saved:
            text = ngettext("%(count)s grant is revoked.", "%(count)s grants are revoked.", saved)
            messages.success(request, text % {"count": saved})
        if problems:
            text = ngettext(
                "%(count)s grant was not revoked: %(problem)s",
                "%(count)s grants were not revoked: %(problem)s",
                len(revocations) - saved,
            )
            values_of_text = {"count": len(revocations) - saved, "problem": "; ".join(dict.fromkeys(problems))[:1000]}
            messages.error(request, text % values_of_text)
        return self.back()


def _read_revocations(values: Sequence[str]) -> list[Revocation | None]:
    """Read values `PRIVILEGE KEY` in their order, None for unknown objects.

    Raises `NotFound` for keys that no object can have, `BadRequest` for other texts.
    """
    pairs = [(read_privilege(privilege), key) for privilege, _space, key in (each.partition(" ") for each in values)]
    keys = {key: _object_key(key) for _privilege, key in pairs}
    in_warehouses = {key: found for key, found in keys.items() if isinstance(found, ObjectKey)}
    resolved = dict(zip(in_warehouses, resolve_objects(list(in_warehouses.values())), strict=True))
    found: list[Revocation | None] = []
    for privilege, key in pairs:
        parsed = keys[key]
        ref = parsed if isinstance(parsed, ObjectRef) else resolved[key]
        found.append(None if ref is None else Revocation(privilege, ref))
    return found


def _object_key(key: str) -> ObjectKey | ObjectRef:
    kind, _colon, rest = key.partition(":")
    first, _colon, last = rest.partition(":")
    ids: list[UUID | None] = [parse_id(first), parse_id(last)]
    if kind == T.PROJECT and rest:
        return ObjectRef(T.PROJECT, rest)
    if kind == T.TAG and ids[0] is not None and not last:
        return ObjectRef(T.TAG, ids[0])
    if kind == T.WAREHOUSE and ids[0] is not None and not last:
        return ObjectKey(T.WAREHOUSE, ids[0])
    if kind in IN_WAREHOUSES - {T.WAREHOUSE} and ids[0] is not None and ids[1] is not None:
        return ObjectKey(T(kind), ids[0], ids[1])
    raise no_such_object()


def _cell(value: str, named: NamedObject | None) -> ObjectCell:
    """Return the cell of an object; `named` is None where the viewer does not see it."""
    key = value.partition(" ")[2]
    return object_cell(named, named or NamedObject(T(key.partition(":")[0]), key.rpartition(":")[2]))
