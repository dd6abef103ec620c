"""The links and forms of a page, as its user could follow and send them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

TYPED = "probe"
"""What is entered into empty fields."""


@dataclass
class Form:
    """A form that changes something: `fields` are filled, `buttons` are name, value and address of each."""

    action: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str, str]] = field(default_factory=list)

    def presses(self) -> Iterator[tuple[str, dict[str, list[str]]]]:
        """Yield address and fields for each of its buttons."""
        for name, value, action in self.buttons:
            yield action or self.action, self.fields | ({name: [value]} if name else {})


class PageForms(HTMLParser):
    """`links` are the addresses of all links that are no downloads, `forms` the forms with the method POST."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._select = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in own and "download" not in own:
            self.links.append(own["href"])
        elif tag == "form" and own.get("method", "").lower() == "post":
            self._form = Form(own.get("action", ""))
            self.forms.append(self._form)
        elif self._form is not None:
            self._note_field(self._form, tag, own)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = ""

    def _note_field(self, form: Form, tag: str, own: dict[str, str]) -> None:
        name, kind = own.get("name", ""), own.get("type", "")
        if tag == "button" and kind == "submit":
            form.buttons.append((name, own.get("value", ""), own.get("formaction", "")))
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select:
            if own.get("value") and ("selected" in own or self._select not in form.fields):
                form.fields[self._select] = [own["value"]]
        elif tag == "input" and kind in {"checkbox", "radio"}:
            if "checked" in own or kind == "radio":
                form.fields.setdefault(name, []).append(own.get("value", "on"))
        elif tag in {"input", "textarea"} and name:
            form.fields[name] = [own.get("value") or ("" if kind in {"hidden", "datetime-local"} else TYPED)]
