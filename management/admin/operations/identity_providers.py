"""Identity providers: whose tokens are accepted, and the state of their keys in this process."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from management.admin.operations.server_report import list_identity_providers_for
from management.admin.pages import Page


class IdentityProvidersPage(Page):
    """The configured providers, without secrets."""

    template_name = "console/identity_providers.html"
    section = "identity-providers"
    title = _("Identity providers")

    def context(self) -> dict[str, Any]:
        found = list_identity_providers_for(actor=self.actor)
        return {"providers": found.providers, "states": found.states, "accepts_own_tokens": found.accepts_own_tokens}
