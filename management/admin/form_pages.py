"""Pages with forms: each form names its action, and shows the error of its service with what the user entered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.services.approval.approve import ContractViolation
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict
from management.admin.navigation import Crumb, Text
from management.admin.pages import Page
from management.admin.times import incomplete_form

FORM: Final = "form"
"""Where the message of an error is shown that is about none of the fields."""

MAX_TEXT_LENGTH: Final = 100_000
"""Characters of a form's field that are read; the services have limits of their own."""


@dataclass(frozen=True, slots=True)
class Action:
    """The method that handles a form, and the fields at which errors are shown."""

    method: str
    fields: Sequence[str] = ()


class FormPage(Page):
    """A page with forms. Each has a button named `action`, whose value is in `actions`.

    The method of an action calls a service and returns a response. Errors of what the user entered, conflicts with the
    stored state, and rules that reject the change and that the user cannot override, show the page again with
    `errors[action]` (messages by field) and `entered[action]`.
    """

    actions: ClassVar[Mapping[str, Action]] = {}

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        name = request.POST.get("action", "")
        action = self.actions.get(name)
        if action is None:
            raise BadRequest("action: must be one of the buttons of the page")
        try:
            return cast("Callable[[], HttpResponse]", getattr(self, action.method))()
        except (BadRequest, Conflict, ContractViolation) as error:
            if self.asks_to_override(error):
                raise
            where = error.field if error.field in action.fields else FORM
            shown = {
                **self.context(),
                "errors": {name: {where: message_of(error)}},
                "entered": {name: {key: self.text(key) for key in request.POST}},
                "failure": error,
            }
            return self.render(shown, status=error.status)

    def render(self, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
        return super().render({"errors": {}, "entered": {}, **context}, status=status)

    def text(self, name: str) -> str:
        """Return a field of the form that was sent, with the line ends that are stored; empty if it is missing."""
        return self.request.POST.get(name, "")[:MAX_TEXT_LENGTH].replace("\r\n", "\n")

    def version(self) -> int:
        """Return the version of the object that the form was filled from, its hidden field. Raises `BadRequest`."""
        text = self.text("version")
        if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004 - digits
            raise incomplete_form()
        return int(text)

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field that are not empty, without spaces at their ends."""
        return [line for each in self.text(name).split("\n") if (line := each.strip())]

    def done(self, url: str, text: str) -> HttpResponse:
        """Redirect to `url`, where `text` is shown. It is stored with the session, so it must not be a secret."""
        messages.success(self.request, text)
        return HttpResponseRedirect(url)


def message_of(error: CatalogError) -> str:
    """Return the text of an error at its field, without the name of the field."""
    text = error.message.removeprefix(f"{error.field}: ") if error.field else error.message
    return text[:1].upper() + text[1:]


class ConfirmPage(FormPage, ABC):
    """A page that names the effects of a deletion before it happens.

    With `typed_name` the user also has to type that name, which the page compares.
    """

    template_name = "console/confirm.html"
    actions: ClassVar[Mapping[str, Action]] = {"delete": Action("confirm", ("typed_name",))}
    button: ClassVar[Text] = gettext_lazy("Delete")

    def context(self) -> dict[str, Any]:
        title, back_url = self.heading(), self.back_url()
        return {
            "title": title,
            "breadcrumb": [*self.crumbs(), Crumb(title)],
            "effects": self.effects(),
            "typed_name": self.typed_name(),
            "back_url": back_url,
            "button": self.button,
        }

    def confirm(self) -> HttpResponse:
        name = self.typed_name()
        if name is not None and self.text("typed_name").strip() != name.strip():
            raise BadRequest(_("This is not the name"), field="typed_name")
        return self.delete()

    @abstractmethod
    def heading(self) -> str: ...

    @abstractmethod
    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumb without the page itself."""

    @abstractmethod
    def effects(self) -> list[Text]: ...

    @abstractmethod
    def back_url(self) -> str: ...

    def typed_name(self) -> str | None:
        return None

    @abstractmethod
    def delete(self) -> HttpResponse:
        """Call the service, and redirect."""
