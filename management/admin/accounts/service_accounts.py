"""Service accounts: their list, and the page of each with its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from icekeeper.kernel.errors.types import Forbidden
from management.admin.access.principals import grants_url
from management.admin.accounts.server_permissions import allowed_on_server
from management.admin.accounts.token_lists import TokenForms
from management.admin.accounts.user_ids import user_url
from management.admin.form_pages import Action, ConfirmPage, FormPage
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, Text
from tenancy.authz.actions import Can
from tenancy.models import ServiceAccount
from tenancy.selectors.users import get_service_account_for, list_service_accounts_for
from tenancy.services.users import create_service_account, delete_service_account


def service_account_url(account_id: UUID) -> str:
    return reverse("admin:service-account", args=[account_id])


class ServiceAccountsPage(FormPage):
    """All service accounts, in order of creation."""

    template_name = "console/service_accounts.html"
    section = "service-accounts"
    title = gettext_lazy("Service accounts")
    actions: ClassVar[Mapping[str, Action]] = {"create": Action("create", ("name", "description"))}

    def context(self) -> dict[str, Any]:
        pager = read_pager(self.request, "service accounts")
        accounts, token = list_service_accounts_for(actor=self.actor, page=pager.page)
        return {
            "rows": [_account_row(each) for each in accounts],
            "can_create": Can.PROVISION_USERS in allowed_on_server(self.actor, Can.PROVISION_USERS),
            **pager.links(token),
        }

    def create(self) -> HttpResponse:
        name, description = self.text("name").strip(), self.text("description").strip()
        account = create_service_account(actor=self.actor, name=name, description=description)
        text = _("Service account %(name)s is created. Create a token for it.") % {"name": account.name}
        return self.done(service_account_url(account.pk), text)


def _account_row(account: ServiceAccount) -> dict[str, Any]:
    return {
        "url": service_account_url(account.pk),
        "user_id": account.user_id,
        "name": account.name,
        "description": account.description,
        "created_at": account.created_at,
        "created_by": account.created_by,
    }


class ServiceAccountOfAddress(FormPage):
    """The base of the pages of one service account."""

    @cached_property
    def account(self) -> ServiceAccount:
        return get_service_account_for(actor=self.actor, account_id=self.kwargs["account_id"])

    def account_crumbs(self) -> list[Crumb]:
        return [Crumb(_("Service accounts"), reverse("admin:service-accounts"))]


class ServiceAccountPage(TokenForms, ServiceAccountOfAddress):
    """A service account, and the secrets by which programs authenticate as it."""

    template_name = "console/service_account.html"
    section = "service-accounts"

    def context(self) -> dict[str, Any]:
        account = self.account
        allowed = allowed_on_server(self.actor, Can.PROVISION_USERS, Can.UPDATE_USERS, Can.DELETE_USERS)
        can_issue = Can.PROVISION_USERS in allowed
        shown: dict[str, Any] = {
            "title": account.name,
            "breadcrumb": [*self.account_crumbs(), Crumb(account.name)],
            "account": _account_row(account),
            "user_url": user_url(account.user_id),
            "grants_url": grants_url(f"user:{account.user_id}"),
            "can_delete": Can.DELETE_USERS in allowed,
            "delete_url": reverse("admin:service-account-delete", args=[account.pk]),
        }
        if Can.UPDATE_USERS in allowed:
            shown |= self.token_context(can_create=can_issue, can_rotate=can_issue, can_revoke=True)
        return shown

    def token_owner(self) -> str:
        return self.account.user_id

    def page_url(self) -> str:
        return service_account_url(self.account.pk)


class ServiceAccountDeletePage(ConfirmPage, ServiceAccountOfAddress):
    """What the deletion of a service account ends, before it happens."""

    section = "service-accounts"

    def context(self) -> dict[str, Any]:
        if not allowed_on_server(self.actor, Can.DELETE_USERS):
            raise Forbidden(_("You do not have the permission to delete service accounts"))
        return super().context()

    def heading(self) -> str:
        return _("Delete service account %(name)s?") % {"name": self.account.name}

    def crumbs(self) -> list[Crumb]:
        return [*self.account_crumbs(), Crumb(self.account.name, self.back_url())]

    def effects(self) -> list[Text]:
        return [
            _("All of its tokens are revoked: programs that use them are denied within seconds."),
            _("Its grants and memberships end. What it created stays."),
            _("The deletion cannot be undone: a new account of the same name has another id."),
        ]

    def back_url(self) -> str:
        return service_account_url(self.account.pk)

    def delete(self) -> HttpResponse:
        name = self.account.name
        delete_service_account(actor=self.actor, account_id=self.account.pk)
        return self.done(reverse("admin:service-accounts"), _("Service account %(name)s is deleted.") % {"name": name})
