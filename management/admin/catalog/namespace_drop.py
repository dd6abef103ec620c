"""The page that drops a namespace: an empty one, or one with everything in it, which the page shows first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.errors import PreviewOutdated
from catalog.models import Namespace, Tabular
from catalog.selectors.subtree_preview import MAX_SHOWN, SubtreePreview, preview_subtree_for
from catalog.services.namespaces.drop import drop_namespace, drop_subtree
from icekeeper.kernel.errors.types import BadRequest, NamespaceNotEmpty
from management.admin.catalog.browse import tree_context
from management.admin.form_pages import Action, FormPage
from management.admin.navigation import Crumb, crumbs, object_url


@dataclass(slots=True)
class Branch:
    """A namespace of the tree that is dropped, with what is in it."""

    name: str
    is_protected: bool = False
    tabulars: list[Tabular] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)


class NamespaceDropPage(FormPage):
    """Drops the namespace of the address. Its form has the digest of what it shows."""

    template_name = "console/namespace_drop.html"
    section = "catalog"
    actions = {"drop": Action("drop", ("typed_name",))}

    @cached_property
    def preview(self) -> SubtreePreview:
        return preview_subtree_for(
            actor=self.actor, warehouse_id=self.kwargs["warehouse_id"], namespace_id=self.kwargs["namespace_id"]
        )

    def context(self) -> dict[str, Any]:
        self.__dict__.pop("preview", None)  # an error shows the state by now
        preview = self.preview
        located = preview.located
        own, name = located.namespace, located.levels[-1]
        url, title = object_url("namespace", own.pk, own.warehouse_id), _("Drop %(name)s?") % {"name": name}
        return {
            "title": title,
            "breadcrumb": [*crumbs(located.path), Crumb(name, url), Crumb(title.rstrip("?"))],
            "back_url": url,
            "name": name,
            "identifier": str(own),
            "is_empty": preview.is_empty,
            "is_protected": preview.has_protected,
            "has_soft_delete": preview.warehouse.has_soft_delete,
            "hides_some": preview.hides_some,
            "counts": _counts(preview),
            "tree": tree_of(preview),
            "max_shown": MAX_SHOWN,
            "has_more": preview.has_more_namespaces or preview.has_more_tabulars,
            "digest": preview.digest,
            **tree_context(located.path, "namespace", own.pk, name),
        }

    def drop(self) -> HttpResponse:
        preview = self.preview
        own, levels, warehouse_id = preview.located.namespace, preview.located.levels, self.kwargs["warehouse_id"]
        if preview.digest != self.text("digest"):
            raise PreviewOutdated(_("Nothing was dropped: something has changed. Check the tree, and drop again"))
        force = bool(self.text("force"))
        if preview.is_empty:
            try:
                drop_namespace(
                    actor=self.actor, warehouse_id=warehouse_id, levels=levels, force=force, expected_id=own.pk
                )
            except NamespaceNotEmpty as error:
                raise PreviewOutdated(_("Nothing was dropped: the namespace is not empty any more")) from error
        else:
            if self.text("typed_name").strip() != levels[-1].strip():
                raise BadRequest(_("This is not the name"), field="typed_name")
            drop_subtree(
                actor=self.actor,
                warehouse_id=warehouse_id,
                levels=levels,
                purge=bool(self.text("purge")),
                force=force,
                digest=preview.digest,
            )
        above = preview.located.path[-1]
        text = _("Namespace %(name)s was dropped.") % {"name": str(own)}
        return self.done(object_url(above.kind, above.id, warehouse_id), text)


def tree_of(preview: SubtreePreview) -> Branch:
    """Return the namespace with those below it. A hidden namespace in between is left out."""
    top = preview.located.namespace
    branches: dict[UUID, Branch] = {top.pk: _branch(top)}
    for namespace in preview.namespaces:  # parents come before their children
        branches[namespace.pk] = _branch(namespace)
        above = branches.get(namespace.parent_id) if namespace.parent_id is not None else None
        (above or branches[top.pk]).branches.append(branches[namespace.pk])
    for tabular in preview.tabulars:
        branches.get(tabular.namespace_id, branches[top.pk]).tabulars.append(tabular)
    return branches[top.pk]


def _branch(namespace: Namespace) -> Branch:
    return Branch(namespace.levels[-1], namespace.protected)


def _counts(preview: SubtreePreview) -> list[str]:
    """Return what is dropped as texts with numbers: "3 namespaces below it", "more than 500 tables and views"."""
    namespaces, tabulars = len(preview.namespaces), len(preview.tabulars)
    dropped = sum(1 for each in preview.tabulars if each.deleted_at is not None)
    texts = []
    if preview.has_more_namespaces:
        texts.append(_("more than %(count)s namespaces below it") % {"count": MAX_SHOWN})
    elif namespaces:
        text = ngettext("%(count)s namespace below it", "%(count)s namespaces below it", namespaces)
        texts.append(text % {"count": namespaces})
    if preview.has_more_tabulars:
        texts.append(_("more than %(count)s tables and views") % {"count": MAX_SHOWN})
    elif tabulars:
        texts.append(ngettext("%(count)s table or view", "%(count)s tables and views", tabulars) % {"count": tabulars})
    if dropped:
        text = ngettext(
            "%(count)s of them was dropped before, and could still be restored",
            "%(count)s of them were dropped before, and could still be restored",
            dropped,
        )
        texts.append(text % {"count": dropped})
    return texts
