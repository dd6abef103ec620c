"""The page that revokes an access token."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from management.admin.accounts.service_accounts import service_account_url
from management.admin.accounts.user_ids import user_url
from management.admin.form_pages import ConfirmPage
from management.admin.navigation import Crumb, Text
from management.templatetags.console import relative_time
from tenancy.authz.actions import Can
from tenancy.models import AccessToken
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX
from tenancy.selectors.users import get_access_token_for
from tenancy.services.access_tokens import revoke_token


class TokenRevokePage(ConfirmPage):
    """What the revocation of a token ends, before it happens."""

    section = "users"
    button: ClassVar[Text] = gettext_lazy("Revoke")

    @cached_property
    def token(self) -> AccessToken:
        return get_access_token_for(actor=self.actor, action=Can.UPDATE_USERS, token_id=self.kwargs["token_id"])

    def heading(self) -> str:
        return _("Revoke the token %(name)s?") % {"name": self.token.name}

    def crumbs(self) -> list[Crumb]:
        return [Crumb(self.token.user_id, self.back_url())]

    def effects(self) -> list[Text]:
        token = self.token
        used = token.last_used_at
        return [
            _("It begins with %(prefix)s.") % {"prefix": token.prefix},
            _("It was never used.")
            if used is None
            else _("It was last used %(time)s.") % {"time": relative_time(used)},
            _("Programs that use it are denied within seconds, and sessions of the console that began with it end."),
            _("The revocation cannot be undone: create another token."),
        ]

    def back_url(self) -> str:
        user_id = self.token.user_id
        if user_id == self.actor.user_id:
            return reverse("admin:profile")
        if user_id.startswith(SERVICE_ACCOUNT_PREFIX):
            return service_account_url(UUID(user_id.removeprefix(SERVICE_ACCOUNT_PREFIX)))
        return user_url(user_id)

    def delete(self) -> HttpResponse:
        token, url = self.token, self.back_url()
        revoke_token(actor=self.actor, token_id=token.pk)
        values = {"name": token.name, "prefix": token.prefix}
        return self.done(url, _("The token %(name)s (%(prefix)s) is revoked.") % values)
