"""Engines that are trusted to name views and their owners (`LAKEKEEPER__TRUSTED_ENGINES__*`).

A verified token identifies the engine. It reports through which views it reads, and it alone sets the owner of a view,
in a property that is reserved for the engine.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from tenancy.actor import Actor, Identity


def owner_properties() -> frozenset[str]:
    """Return the view properties of all trusted engines that name the owner."""
    return frozenset(engine.owner_property for engine in settings.ICEKEEPER.trusted_engines.values())


def owner_properties_of(actor: Actor) -> frozenset[str]:
    """Return the owner properties of the engines that the token of `actor` identifies; empty for other callers."""
    identity = actor.identity
    if identity is None:
        return frozenset()
    engines = settings.ICEKEEPER.trusted_engines.values()
    return frozenset(engine.owner_property for engine in engines if _is_token_of(engine, identity))


def _is_token_of(engine: Any, identity: Identity) -> bool:
    its = engine.identities.get(identity.provider_id)
    if its is None:
        return False
    subject = identity.user_id.partition("~")[2]
    return subject in its.subjects or not set(its.audiences).isdisjoint(identity.audiences)
