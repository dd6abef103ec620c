"""Routes of `/catalog`. Segments arrive as they were sent: the views decode them."""

from __future__ import annotations

from django.urls import path

from catalog.api import segments
from catalog.api.config import ConfigView
from catalog.api.namespaces import NamespacePropertiesView, NamespacesView, NamespaceView
from catalog.api.oauth_tokens import OAuthTokensView
from catalog.api.signing import (
    SignAnywhereView,
    SignForStagedView,
    SignForTableView,
    SignForTabularView,
    SignInWarehouseView,
)
from catalog.api.table_access import TableCredentialsView
from catalog.api.tables import (
    RegisterTableView,
    RenameTableView,
    TableMetricsView,
    TablesView,
    TableView,
    TransactionView,
    UnregisterTableView,
)
from catalog.api.views import RegisterViewView, RenameViewView, ViewsView, ViewView

_NAMESPACE = segments.NAMESPACE
_SIGNER = "v1/signer/<segment:prefix>"
_SIGN = "v1/aws/s3/sign"

urlpatterns = [
    # The hottest first: patterns are tried in this order.
    path(f"{_NAMESPACE}/tables/<segment:table>", TableView.as_view(), name="table"),
    path(f"{_SIGNER}/tabular-id/<segment:tabular_id>/{_SIGN}", SignForTabularView.as_view(), name="sign-for-tabular"),
    path(f"{_NAMESPACE}/tables", TablesView.as_view(), name="tables"),
    path(f"{_NAMESPACE}", NamespaceView.as_view(), name="namespace"),
    path("v1/<segment:prefix>/namespaces", NamespacesView.as_view(), name="namespaces"),
    path("v1/config", ConfigView.as_view(), name="config"),
    path(f"{_NAMESPACE}/tables/<segment:table>/metrics", TableMetricsView.as_view(), name="table-metrics"),
    path(f"{_NAMESPACE}/tables/<segment:table>/credentials", TableCredentialsView.as_view(), name="table-credentials"),
    path(f"{_SIGNER}/staged/<segment:ticket>/{_SIGN}", SignForStagedView.as_view(), name="sign-for-staged"),
    path(f"{_NAMESPACE}/tables/<segment:table>/sign", SignForTableView.as_view(), name="sign-for-table"),
    path(f"v1/<segment:prefix>/{_SIGN}", SignInWarehouseView.as_view(), name="sign-in-warehouse"),
    path(_SIGN, SignAnywhereView.as_view(), name="sign-anywhere"),
    path(f"{_NAMESPACE}/properties", NamespacePropertiesView.as_view(), name="namespace-properties"),
    path(f"{_NAMESPACE}/register", RegisterTableView.as_view(), name="register-table"),
    path(f"{_NAMESPACE}/tables/<segment:table>/unregister", UnregisterTableView.as_view(), name="unregister-table"),
    path("v1/<segment:prefix>/tables/rename", RenameTableView.as_view(), name="rename-table"),
    path(f"{_NAMESPACE}/views/<segment:view>", ViewView.as_view(), name="view"),
    path(f"{_NAMESPACE}/views", ViewsView.as_view(), name="views"),
    path(f"{_NAMESPACE}/register-view", RegisterViewView.as_view(), name="register-view"),
    path("v1/<segment:prefix>/views/rename", RenameViewView.as_view(), name="rename-view"),
    path("v1/oauth/tokens", OAuthTokensView.as_view(), name="oauth-tokens"),
    path("v1/<segment:prefix>/transactions/commit", TransactionView.as_view(), name="commit-transaction"),
]
