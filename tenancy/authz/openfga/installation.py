"""The store and the authorization model in OpenFGA, made where they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from tenancy.authz.openfga.authorization_model import UNEXPIRED, authorization_model, unfolded_model
from tenancy.authz.openfga.store import OpenFgaStore, Place


def install(store: OpenFgaStore) -> tuple[Place, bool]:
    """The store and the model that this release asks, and whether either was made now.

    A model never changes: one of another version is written beside those that are there, and servers of older releases
    go on with theirs. With `LAKEKEEPER__OPENFGA__AUTHORIZATION_MODEL_VERSION` none is written.

    Raises `OpenFgaUnavailable`, also for a version that is to be used and is not there.
    """
    if settings.ICEKEEPER.openfga.authorization_model_version is not None:
        return store.find(), False
    store_id = store.store_id()
    if store_id is None:
        made = store.make_store()
        store_id = store.store_id() or made  # several that are made at once have one name: the first one counts
    model_id = store.model_id(store_id)
    if model_id is not None:
        return Place(store_id, model_id), False
    model = authorization_model(unfolded_model(), store.model_name)
    return Place(store_id, store.make_model(store_id, model)), True


def foreign_models(store: OpenFgaStore) -> list[str]:
    """The ids of models in our store that no release of ours wrote. Raises `OpenFgaUnavailable`.

    Tuples do not say by which model they are meant: where there are others, somebody else may keep theirs there.
    """
    store_id = store.store_id()
    return [] if store_id is None else [str(each["id"]) for each in store.models(store_id) if not _is_ours(each)]


def _is_ours(model: Mapping[str, Any]) -> bool:
    """By its name, a type that has nothing, and the condition of all our grants."""
    prefix = f"{settings.ICEKEEPER.openfga.authorization_model_prefix}-"
    named = (each for each in model.get("type_definitions", ()) if not each.get("relations"))
    is_named = any(str(each.get("type", "")).startswith(prefix) for each in named)
    return is_named and UNEXPIRED in (model.get("conditions") or {})
