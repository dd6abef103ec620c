"""Routes of `/catalog`. Path segments are raw: the views decode them."""

from __future__ import annotations

from typing import Final

from django.urls import path, register_converter

from catalog.api.config import ConfigViewSet
from catalog.api.iceberg_views import IcebergViewSet
from catalog.api.namespaces import NamespaceViewSet
from catalog.api.oauth_tokens import OAuthTokenViewSet
from catalog.api.signing import SigningViewSet
from catalog.api.tables import TableViewSet
from icekeeper.kernel.http.raw_path import RawSegment

register_converter(RawSegment, "segment")

NAMESPACE: Final = "v1/<segment:prefix>/namespaces/<segment:namespace>"
_TABLE: Final = f"{NAMESPACE}/tables/<segment:table>"
_SIGNER: Final = "v1/signer/<segment:prefix>"
_SIGN: Final = "v1/aws/s3/sign"

_table = TableViewSet.as_view
_view = IcebergViewSet.as_view
_namespace = NamespaceViewSet.as_view
_sign = SigningViewSet.as_view

urlpatterns = [
    # The most frequent first: patterns are tried in this order.
    path(_TABLE, _table({"get": "load", "head": "exists", "post": "commit", "delete": "drop"}), name="table"),
    path(
        f"{_SIGNER}/tabular-id/<segment:tabular_id>/{_SIGN}",
        _sign({"post": "sign_for_tabular"}),
        name="sign-for-tabular",
    ),
    path(f"{NAMESPACE}/tables", _table({"get": "list", "post": "create"}), name="tables"),
    path(NAMESPACE, _namespace({"get": "load", "head": "exists", "delete": "drop"}), name="namespace"),
    path("v1/<segment:prefix>/namespaces", _namespace({"get": "list", "post": "create"}), name="namespaces"),
    path("v1/config", ConfigViewSet.as_view({"get": "get_config"}), name="config"),
    path(f"{_TABLE}/metrics", _table({"post": "report_metrics"}), name="table-metrics"),
    path(f"{_TABLE}/credentials", _table({"get": "load_credentials"}), name="table-credentials"),
    path(f"{_SIGNER}/staged/<segment:ticket>/{_SIGN}", _sign({"post": "sign_for_staged"}), name="sign-for-staged"),
    path(f"{_TABLE}/sign", _sign({"post": "sign_for_table"}), name="sign-for-table"),
    path(f"v1/<segment:prefix>/{_SIGN}", _sign({"post": "sign_in_warehouse"}), name="sign-in-warehouse"),
    path(_SIGN, _sign({"post": "sign_without_warehouse"}), name="sign-anywhere"),
    path(f"{NAMESPACE}/properties", _namespace({"post": "update_properties"}), name="namespace-properties"),
    path(f"{NAMESPACE}/register", _table({"post": "register"}), name="register-table"),
    path(f"{_TABLE}/unregister", _table({"post": "unregister"}), name="unregister-table"),
    path("v1/<segment:prefix>/tables/rename", _table({"post": "rename"}), name="rename-table"),
    path(
        f"{NAMESPACE}/views/<segment:view>",
        _view({"get": "load", "head": "exists", "post": "replace", "delete": "drop"}),
        name="view",
    ),
    path(f"{NAMESPACE}/views", _view({"get": "list", "post": "create"}), name="views"),
    path(f"{NAMESPACE}/register-view", _view({"post": "register"}), name="register-view"),
    path("v1/<segment:prefix>/views/rename", _view({"post": "rename"}), name="rename-view"),
    path("v1/oauth/tokens", OAuthTokenViewSet.as_view({"post": "issue_token"}), name="oauth-tokens"),
    path("v1/<segment:prefix>/transactions/commit", _table({"post": "commit_transaction"}), name="commit-transaction"),
]
