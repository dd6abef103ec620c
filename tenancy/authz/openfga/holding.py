"""Whether tuples are told to OpenFGA, and for how long a delivery holds those that were not yet."""

from __future__ import annotations

from typing import Final

from django.conf import settings

HELD_SECONDS: Final = 30.0
"""For how long a delivery has a tuple for itself: longer than anything it sent can take to come about."""


def is_openfga() -> bool:
    """Whether there is anybody to tell."""
    return bool(settings.ICEKEEPER.effective_authz_backend == "openfga")
