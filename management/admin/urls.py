"""Addresses of the console. They contain ids, not names: names would stand in browser histories and proxies' logs."""

from __future__ import annotations

from django.contrib.admin import site
from django.urls import URLPattern, path, register_converter

from management.admin.access.grant_forms import (
    ExplainPage,
    GrantForm,
    ManagedAccessForm,
    ObjectAccessPage,
    ProjectAccessPage,
    RoleAccessPage,
    ServerAccessPage,
)
from management.admin.access.grant_previews import PreviewPage, SaveForm
from management.admin.access.principal_grants import AccessReviewPage, PrincipalGrantsPage
from management.admin.access.principals import PrincipalsFragment
from management.admin.access.revocations import RevocationsPage
from management.admin.accounts.profile import ProfilePage
from management.admin.accounts.projects import ProjectAddPage, ProjectDeletePage, ProjectSettingsPage
from management.admin.accounts.roles import RoleDeletePage, RolePage, RolesPage
from management.admin.accounts.service_accounts import ServiceAccountDeletePage, ServiceAccountPage, ServiceAccountsPage
from management.admin.accounts.tags import TagDeletePage, TagPage, TagsPage
from management.admin.accounts.token_revocation import TokenRevokePage
from management.admin.accounts.user_ids import UserIdConverter
from management.admin.accounts.users import UserDeletePage, UserPage, UsersPage
from management.admin.catalog.browse import CatalogPage, TreeFragment
from management.admin.catalog.contents_change import ContentsChangePage
from management.admin.catalog.deleted import DeletedPage, ExpireNowPage
from management.admin.catalog.lakekeeper_links import LakekeeperLink
from management.admin.catalog.namespace_drop import NamespaceDropPage
from management.admin.catalog.namespace_forms import NamespaceAddPage, NamespaceMovePage
from management.admin.catalog.namespaces import NamespacePage
from management.admin.catalog.object_tags import ObjectTagsAction
from management.admin.catalog.property_forms import NamespacePropertiesPage, TabularPropertiesPage
from management.admin.catalog.protection import ProtectionAction
from management.admin.catalog.restore import RestorePage, UndoDropAction
from management.admin.catalog.search import SearchPage
from management.admin.catalog.tabular_forms import TabularDropPage, TabularRenamePage
from management.admin.catalog.tabulars import FilesReadingPage, GenericTablePage, TablePage, ViewPage
from management.admin.change_rules.evaluation import EvaluatePage
from management.admin.change_rules.findings import FindingsPage
from management.admin.change_rules.rule import ChangeRuleDeletePage, ChangeRulePage
from management.admin.change_rules.rule_forms import RuleAddPage, RuleEditPage
from management.admin.change_rules.rules import ChangeRulesPage
from management.admin.events.events import EventPage, EventsPage
from management.admin.events.sink_forms import SinkAddPage, SinkEditPage
from management.admin.events.sink_questions import DeadLettersDeletePage, ReplayPage, SinkDeletePage, SkipPage
from management.admin.events.sinks import DeadLetterPage, EventSinkPage, EventSinksPage
from management.admin.operations.audit import AuditExport, AuditPage
from management.admin.operations.audit_verification import AuditVerifyPage
from management.admin.operations.identity_providers import IdentityProvidersPage
from management.admin.operations.overview import OverviewPage, ProjectPage
from management.admin.operations.server import ServerPage, SupportBundle
from management.admin.operations.statistics import StatisticsPage
from management.admin.operations.task import TaskPage
from management.admin.operations.task_changes import TaskChangePage
from management.admin.operations.tasks import TasksPage
from management.admin.pages import Page
from management.admin.sql.page import SqlPage
from management.admin.warehouses.add import WarehouseAddPage
from management.admin.warehouses.edit import WarehouseDeletePage, WarehouseEditPage
from management.admin.warehouses.storage import CredentialEditPage, StorageEditPage, StorageValidatePage
from management.admin.warehouses.warehouse import WarehousePage, WarehousesPage

register_converter(UserIdConverter, "user_id")


def page(route: str, view: type[Page], name: str) -> URLPattern:
    """Return the pattern of a page, which only signed-in users may open."""
    return path(route, site.admin_view(view.as_view()), name=name)


WAREHOUSE = "warehouse/<uuid:warehouse_id>"
NAMESPACE = f"{WAREHOUSE}/namespace/<uuid:namespace_id>"
TABULAR = f"{WAREHOUSE}/<slug:kind>/<uuid:object_id>"
ACCESS = "access/object/<str:key>"
RULE = "change-rule/<uuid:rule_id>"
SINK = "event-sink/<uuid:sink_id>"

urlpatterns = [
    page("", OverviewPage, "index"),
    page("search/", SearchPage, "search"),
    page("profile/", ProfilePage, "profile"),
    page("project/add/", ProjectAddPage, "project-add"),
    page("project/<str:project_id>/", ProjectPage, "project"),
    page("project/<str:project_id>/task/<uuid:task_id>/", TaskPage, "project-task"),
    page("project/<str:project_id>/access/", ProjectAccessPage, "project-access"),
    page("server/access/", ServerAccessPage, "server-access"),
    page("role/<uuid:role_id>/access/", RoleAccessPage, "role-access"),
    page("principals/", PrincipalsFragment, "principals"),
    page("access/", PrincipalGrantsPage, "grants"),
    page("access/review/", AccessReviewPage, "access-review"),
    page("access/revoke/", RevocationsPage, "revocations"),
    page(f"{ACCESS}/", ObjectAccessPage, "object-access"),
    page(f"{ACCESS}/explain/", ExplainPage, "object-explain"),
    page(f"{ACCESS}/grant/", GrantForm, "object-grant"),
    page(f"{ACCESS}/preview/", PreviewPage, "object-preview"),
    page(f"{ACCESS}/save/", SaveForm, "object-save"),
    page(f"{ACCESS}/managed-access/", ManagedAccessForm, "object-managed-access"),
    page("project/<str:project_id>/settings/", ProjectSettingsPage, "project-settings"),
    page("project/<str:project_id>/delete/", ProjectDeletePage, "project-delete"),
    page("catalog/", CatalogPage, "catalog"),
    page("catalog/tree/", TreeFragment, "tree"),
    page("deleted/", DeletedPage, "deleted"),
    page("deleted/restore/", RestorePage, "restore"),
    page("deleted/delete/", ExpireNowPage, "expire-now"),
    page("deleted/undo/", UndoDropAction, "undo-drop"),
    page("sql/", SqlPage, "sql"),
    page("task/", TasksPage, "tasks"),
    page("task/change/", TaskChangePage, "task-change"),
    page("statistics/", StatisticsPage, "statistics"),
    page("audit/", AuditPage, "audit"),
    page("audit/export/", AuditExport, "audit-export"),
    page("audit/verify/", AuditVerifyPage, "audit-verify"),
    page("event/", EventsPage, "events"),
    page("event/<int:position>/", EventPage, "event"),
    page("event-sink/", EventSinksPage, "event-sinks"),
    page("event-sink/add/", SinkAddPage, "event-sink-add"),
    page(f"{SINK}/", EventSinkPage, "event-sink"),
    page(f"{SINK}/edit/", SinkEditPage, "event-sink-edit"),
    page(f"{SINK}/replay/", ReplayPage, "event-sink-replay"),
    page(f"{SINK}/skip/", SkipPage, "event-sink-skip"),
    page(f"{SINK}/delete/", SinkDeletePage, "event-sink-delete"),
    page(f"{SINK}/dead-letters/delete/", DeadLettersDeletePage, "dead-letters-delete"),
    page(f"{SINK}/dead-letter/<int:position>/", DeadLetterPage, "dead-letter"),
    page("change-rule/", ChangeRulesPage, "change-rules"),
    page("change-rule/add/", RuleAddPage, "change-rule-add"),
    page("change-rule/findings/", FindingsPage, "change-rule-findings"),
    page(f"{RULE}/", ChangeRulePage, "change-rule"),
    page(f"{RULE}/edit/", RuleEditPage, "change-rule-edit"),
    page(f"{RULE}/evaluate/", EvaluatePage, "change-rule-evaluate"),
    page(f"{RULE}/delete/", ChangeRuleDeletePage, "change-rule-delete"),
    page("warehouse/", WarehousesPage, "warehouses"),
    page("warehouse/add/", WarehouseAddPage, "warehouse-add"),
    page(f"{WAREHOUSE}/", WarehousePage, "warehouse"),
    page(f"{WAREHOUSE}/task/<uuid:task_id>/", TaskPage, "task"),
    page(f"{WAREHOUSE}/edit/", WarehouseEditPage, "warehouse-edit"),
    page(f"{WAREHOUSE}/edit-storage/", StorageEditPage, "warehouse-edit-storage"),
    page(f"{WAREHOUSE}/edit-credential/", CredentialEditPage, "warehouse-edit-credential"),
    page(f"{WAREHOUSE}/validate/", StorageValidatePage, "warehouse-validate"),
    page(f"{WAREHOUSE}/delete/", WarehouseDeletePage, "warehouse-delete"),
    page(f"{WAREHOUSE}/add-namespace/", NamespaceAddPage, "warehouse-add-namespace"),
    page(f"{NAMESPACE}/add-namespace/", NamespaceAddPage, "namespace-add-namespace"),
    page(f"{NAMESPACE}/change/", ContentsChangePage, "contents-change"),
    page(f"{NAMESPACE}/move/", NamespaceMovePage, "namespace-move"),
    page(f"{NAMESPACE}/drop/", NamespaceDropPage, "namespace-drop"),
    page(f"{NAMESPACE}/edit-properties/", NamespacePropertiesPage, "namespace-edit-properties"),
    page(f"{TABULAR}/protection/", ProtectionAction, "protection"),
    page(f"{TABULAR}/rename/", TabularRenamePage, "tabular-rename"),
    page(f"{TABULAR}/drop/", TabularDropPage, "tabular-drop"),
    page(f"{TABULAR}/edit-properties/", TabularPropertiesPage, "tabular-edit-properties"),
    page(f"{WAREHOUSE}/<slug:kind>/<uuid:object_id>/tags/", ObjectTagsAction, "object-tags"),
    page(f"{WAREHOUSE}/<slug:tab>/", WarehousePage, "warehouse-tab"),
    page(f"{WAREHOUSE}/namespace/<uuid:namespace_id>/", NamespacePage, "namespace"),
    page(f"{WAREHOUSE}/namespace/<uuid:namespace_id>/<slug:tab>/", NamespacePage, "namespace-tab"),
    page(f"{WAREHOUSE}/table/<uuid:object_id>/", TablePage, "table"),
    page(f"{WAREHOUSE}/table/<uuid:object_id>/files/reading/", FilesReadingPage, "table-files"),
    page(f"{WAREHOUSE}/table/<uuid:object_id>/<slug:tab>/", TablePage, "table-tab"),
    page(f"{WAREHOUSE}/view/<uuid:object_id>/", ViewPage, "view"),
    page(f"{WAREHOUSE}/view/<uuid:object_id>/<slug:tab>/", ViewPage, "view-tab"),
    page(f"{WAREHOUSE}/generic-table/<uuid:object_id>/", GenericTablePage, "generic-table"),
    page(f"{WAREHOUSE}/generic-table/<uuid:object_id>/<slug:tab>/", GenericTablePage, "generic-table-tab"),
    page(f"{WAREHOUSE}/namespace/<path:names>", LakekeeperLink, "lakekeeper-link"),
    page("role/", RolesPage, "roles"),
    page("role/<uuid:role_id>/", RolePage, "role"),
    page("role/<uuid:role_id>/delete/", RoleDeletePage, "role-delete"),
    page("role/<uuid:role_id>/<slug:tab>/", RolePage, "role-tab"),
    page("user/", UsersPage, "users"),
    page("user/<user_id:user_id>/", UserPage, "user"),
    page("user/<user_id:user_id>/delete/", UserDeletePage, "user-delete"),
    page("token/<uuid:token_id>/revoke/", TokenRevokePage, "token-revoke"),
    page("service-account/", ServiceAccountsPage, "service-accounts"),
    page("service-account/<uuid:account_id>/", ServiceAccountPage, "service-account"),
    page("service-account/<uuid:account_id>/delete/", ServiceAccountDeletePage, "service-account-delete"),
    page("server/", ServerPage, "server"),
    page("identity-provider/", IdentityProvidersPage, "identity-providers"),
    page("server/support-bundle/", SupportBundle, "support-bundle"),
    page("tag/", TagsPage, "tags"),
    page("tag/<uuid:definition_id>/", TagPage, "tag"),
    page("tag/<uuid:definition_id>/delete/", TagDeletePage, "tag-delete"),
]
