"""Access tokens on pages: their list, and the forms that create and rotate them.

A new token is in the response to the form and nowhere else. That response is not compressed: its size would otherwise
depend on how much the token and the text that the user entered have in common (BREACH).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext as _

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from management.admin.form_pages import Action, FormPage
from management.admin.listing_pages import read_pager
from management.admin.navigation import Text
from management.sign_in.sessions import accepts_access_tokens
from tenancy.actor import DEFAULT_SCOPES, SCOPES
from tenancy.models import AccessToken
from tenancy.selectors.users import list_access_tokens_for
from tenancy.services.access_tokens import IssuedToken, create_token, rotate_token

SECONDS_A_DAY: Final = 86_400
LIFETIMES: Final = (7, 30, 90, 180, 365)
"""Days that the form offers."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as the template shows it."""

    id: UUID
    name: str
    prefix: str
    scopes: tuple[str, ...]
    state: Text
    tone: str
    created_at: datetime
    created_by: str
    expires_at: datetime
    last_used_at: datetime | None
    is_live: bool
    can_rotate: bool


def token_row(token: AccessToken, at: datetime, *, can_rotate: bool) -> TokenRow:
    is_live = token.revoked_at is None and token.expires_at > at
    is_replaced = token.replaced_by_id is not None
    if token.revoked_at is not None:
        state, tone = _("revoked"), "bad"
    elif token.expires_at <= at:
        state, tone = _("expired"), ""
    else:
        state, tone = (_("replaced"), "warning") if is_replaced else (_("active"), "good")
    return TokenRow(
        token.pk, token.name, token.prefix, tuple(token.scopes.split()), state, tone, token.created_at,
        token.created_by, token.expires_at, token.last_used_at, is_live, is_live and can_rotate and not is_replaced,
    )  # fmt: skip


class TokenForms(FormPage, ABC):
    """The part of a page that lists the tokens of `token_owner()`, and handles the forms of the list."""

    actions: ClassVar[Mapping[str, Action]] = {
        "create-token": Action("create_token", ("name", "scopes", "days")),
        "rotate-token": Action("rotate_token"),
    }

    def token_owner(self) -> str | None:
        """Return the user whose tokens the page shows; None for the user of the session."""
        return None

    @abstractmethod
    def page_url(self) -> str: ...

    def token_context(self, *, can_create: bool, can_rotate: bool, can_revoke: bool) -> dict[str, Any]:
        """Return what `parts/tokens.html` and `parts/token_form.html` show. Raises as `list_access_tokens_for`."""
        pager = read_pager(self.request, "tokens", self.token_owner(), parameter="tokens")
        found, token = list_access_tokens_for(actor=self.actor, user_id=self.token_owner(), page=pager.page)
        at, is_open = now(), accepts_access_tokens()
        return {
            "tokens": [token_row(each, at, can_rotate=can_rotate and is_open) for each in found],
            "token_pages": pager.links(token),
            "can_create_tokens": can_create and is_open,
            "can_revoke_tokens": can_revoke,
            "tokens_are_off": not is_open,
            "scope_options": self._scope_options(),
            "lifetime_options": self._lifetime_options(),
        }

    def create_token(self) -> HttpResponse:
        issued = create_token(
            actor=self.actor,
            name=self.text("name").strip(),
            user_id=self.token_owner(),
            scopes=self.request.POST.getlist("scopes"),
            expires_in=self._days() * SECONDS_A_DAY,
        )
        return self._show(issued)

    def rotate_token(self) -> HttpResponse:
        return self._show(rotate_token(actor=self.actor, token_id=self._token_id()))

    def _show(self, issued: IssuedToken) -> HttpResponse:
        row = issued.row
        new = {"text": issued.text, "name": row.name, "expires_at": row.expires_at, "scopes": row.scopes.split()}
        response = self.render({**self.context(), "new_token": new}, status=201)
        response.headers["Content-Encoding"] = "identity"
        return response

    def _token_id(self) -> UUID:
        token_id = parse_id(self.text("token_id"))
        if token_id is None:
            raise BadRequest(_("token_id: must be the id of a token"))
        return token_id

    def _days(self) -> int:
        text = self.text("days")
        if not text.isascii() or not text.isdigit() or len(text) > 5:  # noqa: PLR2004 - digits
            raise BadRequest(_("days: must be a number of days"), field="days")
        return int(text)

    def _scope_options(self) -> list[tuple[str, str, bool]]:
        chosen: Sequence[str] = self.request.POST.getlist("scopes") or sorted(DEFAULT_SCOPES)
        return [(each, each, each in chosen) for each in SCOPES]

    def _lifetime_options(self) -> list[tuple[str, str, bool]]:
        longest = int(settings.ICEKEEPER.access_token_max_lifetime // SECONDS_A_DAY)
        usual = int(settings.ICEKEEPER.access_token_default_lifetime // SECONDS_A_DAY)
        days = sorted({each for each in (*LIFETIMES, usual, longest) if 0 < each <= longest})
        chosen = self.request.POST.get("days", str(min(usual, longest)))
        return [(str(each), _("%(days)s days") % {"days": each}, str(each) == chosen) for each in days]
