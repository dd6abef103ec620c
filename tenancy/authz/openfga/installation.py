"""Creates the store and the authorization model in OpenFGA if they do not exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from tenancy.authz.openfga.authorization_model import UNEXPIRED, authorization_model, unfolded_model
from tenancy.authz.openfga.store import OpenFgaStore, StoreAndModel


def install(store: OpenFgaStore) -> tuple[StoreAndModel, bool]:
    """Return the store and the model of this release, and whether the model was created by this call.

    Models never change: another version is added to the existing ones, and servers of older releases continue to use
    theirs. With `LAKEKEEPER__OPENFGA__AUTHORIZATION_MODEL_VERSION` none is written.

    Raises `OpenFgaUnavailable`, also if the configured version does not exist.
    """
    if settings.ICEKEEPER.openfga.authorization_model_version is not None:
        return store.resolve(), False
    store_id = store.find_store_id()
    if store_id is None:
        created = store.create_store()
        store_id = store.find_store_id() or created  # of stores created concurrently the first is used
    model_id = store.find_model_id(store_id)
    if model_id is not None:
        return StoreAndModel(store_id, model_id), False
    model = authorization_model(unfolded_model(), store.model_name)
    return StoreAndModel(store_id, store.create_model(store_id, model)), True


def foreign_models(store: OpenFgaStore) -> list[str]:
    """Return the ids of models in our store that no release of ours wrote. Raises `OpenFgaUnavailable`.

    Tuples do not name a model: if there are other models, another application may keep its tuples in the store.
    """
    store_id = store.find_store_id()
    return [] if store_id is None else [str(each["id"]) for each in store.list_models(store_id) if not _is_ours(each)]


def _is_ours(model: Mapping[str, Any]) -> bool:
    """Recognize a model of ours by its name, a type without relations, and by the condition of our grants."""
    prefix = f"{settings.ICEKEEPER.openfga.authorization_model_prefix}-"
    named = (each for each in model.get("type_definitions", ()) if not each.get("relations"))
    is_named = any(str(each.get("type", "")).startswith(prefix) for each in named)
    return is_named and UNEXPIRED in (model.get("conditions") or {})
