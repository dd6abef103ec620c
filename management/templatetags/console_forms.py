"""Template tags of the console's forms."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def code_marks(text: object) -> SafeString:
    """Return a text with its parts between backticks as `<code>`."""
    parts = str(text).split("`")
    shown = (format_html("<code>{}</code>" if index % 2 else "{}", part) for index, part in enumerate(parts))
    return format_html_join("", "{}", ((part,) for part in shown))
