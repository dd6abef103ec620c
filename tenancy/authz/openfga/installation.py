"""The store and the authorization model in OpenFGA, made where they are missing."""

from __future__ import annotations

from django.conf import settings

from tenancy.authz.openfga.store import OpenFgaStore, Place
from tenancy.authz.openfga.translation import authorization_model
from tenancy.authz.openfga.unfolding import unfolded_model


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
