from __future__ import annotations

from drf_spectacular.utils import extend_schema

from catalog.api.operations.parameters import LISTING_EXTRAS, OF_VIEW, REFERENCED_BY
from catalog.api.operations.refusals import (
    BAD_LOCATION,
    NO_METADATA_FILE,
    NO_VIEW,
    OF_ITS_ENGINE,
    STORE_FAILED,
    TAKEN,
    TOO_MANY_VIEWS,
    answers_below_prefix,
)
from catalog.api.operations.tabulars import Kind, commit, creation, drop, existence, listing, registration, rename
from catalog.api.operations.tags import CATALOG
from catalog.api.shapes.tabulars import ListTablesResponse
from catalog.api.shapes.views import CommitViewRequest, CreateViewRequest, LoadViewResult, RegisterViewRequest

VIEW = Kind("view", CATALOG, OF_VIEW, missing=NO_VIEW, taken=TAKEN, guards={403: OF_ITS_ENGINE})
_ILLEGAL = f"{BAD_LOCATION}; `EmptyView`; `IllegalArgumentException`: two texts of one dialect"

list_views = listing("listViews", VIEW, ListTablesResponse, extras=LISTING_EXTRAS)
create_view = creation(
    "createView",
    VIEW,
    CreateViewRequest,
    LoadViewResult,
    summary="Make a view",
    refusals={400: _ILLEGAL, 503: STORE_FAILED},
)
register_view = registration(
    "registerView", VIEW, RegisterViewRequest, LoadViewResult, conflicts=f"{TAKEN}; `LocationAlreadyTaken`"
)
load_view = extend_schema(
    operation_id="loadView",
    tags=CATALOG,
    summary="A view's metadata, the newest version",
    parameters=[*OF_VIEW, REFERENCED_BY],
    responses=answers_below_prefix(
        {200: LoadViewResult}, {400: TOO_MANY_VIEWS, 404: f"{NO_VIEW}, {NO_METADATA_FILE}", 503: STORE_FAILED}
    ),
)
view_exists = existence("viewExists", VIEW)
replace_view = commit(
    "replaceView",
    VIEW,
    CommitViewRequest,
    LoadViewResult,
    illegal=_ILLEGAL,
    conflicts="`CommitFailedException`: certainly not committed; `LocationAlreadyTaken`",
)
drop_view = drop("dropView", VIEW, summary="Forget a view", purges_unless_told=False)
rename_view = rename("renameView", VIEW)
