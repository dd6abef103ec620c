"""Messages with a button that undoes what they are about."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from management.templatetags.console_messages import Undo


def done_with_undo(request: HttpRequest, url: str, text: str, undo: Undo | None) -> HttpResponse:
    """Redirect to `url`, where `text` is shown with a button for `undo`. Both are stored with the session."""
    messages.success(request, text, extra_tags="" if undo is None else undo.as_tags())
    return HttpResponseRedirect(url)
