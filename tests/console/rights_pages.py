"""Pages of lists, pages that need an action, and forms: each with the call of the APIs that it must agree with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from tests.harness.wsgi_client import Response, call

MANAGEMENT: Final = "/management/v1"


@dataclass(frozen=True)
class ApiCall:
    """A call of the management API; without a body it is a GET. `action` must be in the list that it returns."""

    path: str
    body: Any = None
    method: str = ""
    action: str = ""
    hidden: int = 403
    """The status of the page of a hidden project: mostly 404, where the APIs return 403, as Lakekeeper does."""

    def send(self, name: str) -> Response:
        method = self.method or ("GET" if self.body is None else "POST")
        body = b"" if self.body is None else json.dumps(self.body).encode()
        return call(method, MANAGEMENT + self.path, body=body, headers={"authorization": f"Bearer {name}"})

    def status(self, name: str) -> int:
        """Return the status of the call; with an `action`, 403 without the permission for it."""
        response = self.send(name)
        if response.status != 200 or not self.action:
            return response.status
        allowed = [each["action"] for each in response.json()["allowed-actions"]]
        return 200 if self.action in allowed else 403 if allowed else self.hidden


@dataclass(frozen=True)
class Objects:
    """Ids of the objects of one project that the pages show, as clients see them."""

    project: str
    warehouse: str
    namespace: str
    table: str
    hidden_table: str
    dropped: Mapping[str, str]
    """By full name: one in a visible namespace, one in a hidden one."""
    tasks: Mapping[str, str]
    """Those that purge the dropped tables, by the name of the table."""
    project_task: str
    """One of the project itself."""
    role: str
    inner_role: str
    account: str
    token: str
    """A token of the account."""
    tag: str
    sink: str
    letter: str
    """The position of a dead letter of the sink."""
    event: str
    """The position of an event of the warehouse."""
    rule: str
    """A rule of the warehouse, with a finding."""
    user: str = "oidc~engineer"

    @property
    def on_table(self) -> str:
        return f"table:{self.warehouse}:{self.table}"


def _whole(body: bytes) -> str:
    return body.decode()


@dataclass(frozen=True)
class ListPage:
    """A page that shows what the call lists: of `texts`, each by its text in the response, the same are in both."""

    address: str
    call: ApiCall
    texts: Mapping[str, str]
    read: Callable[[bytes], str] = field(default=_whole)
    """Returns the response as the text that has those of `texts`."""
    is_of_all_projects: bool = False


def _dropped_names(body: bytes) -> str:
    return " ".join(".".join((*each["namespace"], each["name"])) for each in json.loads(body)["tabulars"])


def _grants_of_chain(body: bytes) -> str:
    """Return the verdict of an explanation and the grants of its chain, without those that would allow it."""
    found = json.loads(body)
    return f"{found['allowed']} {json.dumps([each for each in found['chain'] if each.get('grant')])}"


def list_pages(of: Objects) -> list[ListPage]:
    warehouse, at = f"/warehouse/{of.warehouse}", f"/ui/warehouse/{of.warehouse}"
    users = {f"/ui/user/{each}/": f'"{each}"' for each in ("oidc~lead", "oidc~guest", of.user, of.account)}
    roles = {f"/ui/role/{each}/": f'"{each}"' for each in (of.role, of.inner_role)}
    tables = {f"/table/{each}/": each for each in (of.table, of.hidden_table)}
    dropped, rule = {each: each for each in of.dropped}, {f"/ui/change-rule/{of.rule}/": f'"{of.rule}"'}
    tasks = {f"{at}/task/{each}/": f'"task-id":"{each}"' for each in of.tasks.values()}
    in_project, who = urlencode({"project": of.project}), urlencode({"who": f"user:{of.user}", "project": of.project})
    principal = urlencode({"principalUser": of.user})
    checked = {"table": {"action": "read_data", "warehouse-id": of.warehouse, "table-id": of.table}}
    explain = f"/ui/access/object/{of.on_table}/explain/?action=read_data"
    explained = {
        "ik-badge--good": "True", "ik-badge--bad": "False", f'{at}/namespace/{of.namespace}/">': of.namespace,
    }  # fmt: skip
    members = users | {f"/ui/role/{of.inner_role}/": of.inner_role}
    return [
        ListPage("/ui/warehouse/", ApiCall("/warehouse"), {f"{at}/": of.warehouse}),
        ListPage(f"/ui/role/?{in_project}", ApiCall("/role"), roles),
        ListPage(f"/ui/role/{of.role}/", ApiCall(f"/role/{of.role}/members"), members),
        ListPage(f"/ui/role/{of.role}/all-members/", ApiCall(f"/role/{of.role}/members/transitive"), members),
        ListPage("/ui/user/", ApiCall("/user"), users),
        ListPage("/ui/event-sink/", ApiCall("/event-sinks"), {f"/ui/event-sink/{of.sink}/": f'"{of.sink}"'}),
        ListPage(f"/ui/event-sink/{of.sink}/", ApiCall(f"/event-sinks/{of.sink}/dead-letters"),
                 {f"/ui/event-sink/{of.sink}/dead-letter/{of.letter}/": f'"position":{of.letter}'}),
        ListPage(f"/ui/event/?{in_project}", ApiCall(f"/events?limit=1000&projectId={of.project}"),
                 {f"/ui/event/{of.event}/": f'"position":"{of.event}"'}),
        ListPage("/ui/change-rule/", ApiCall("/change-rules"), rule),
        ListPage(f"/ui/change-rule/?object=warehouse:{of.warehouse}",
                 ApiCall(f"/change-rules?scopeType=warehouse&scopeId={of.warehouse}&effective=true"), rule),
        ListPage(f"/ui/change-rule/findings/?{in_project}", ApiCall("/change-rules/findings"), rule),
        ListPage(f"/ui/change-rule/findings/?object=warehouse:{of.warehouse}",
                 ApiCall(f"/change-rules/findings?scopeType=warehouse&scopeId={of.warehouse}"), rule),
        ListPage(f"/ui/change-rule/{of.rule}/", ApiCall(f"/change-rules/findings?ruleId={of.rule}"),
                 {f"{at}/table/{of.table}/": of.table}),
        ListPage("/ui/service-account/", ApiCall("/service-account"), {"/ui/service-account/": "service-accounts"}),
        ListPage(f"/ui/tag/?{in_project}", ApiCall("/tag-definition"), {f"/ui/tag/{of.tag}/": of.tag}),
        ListPage(f"/ui/tag/{of.tag}/", ApiCall(f"/tag-definition/{of.tag}"), {of.tag: of.tag}),
        ListPage(f"/ui/deleted/?warehouse={of.warehouse}", ApiCall(f"{warehouse}/deleted-tabulars"), dropped,
                 _dropped_names),
        ListPage(f"/ui/task/?warehouse={of.warehouse}", ApiCall(f"{warehouse}/task/list", {}), tasks),
        ListPage(f"/ui/task/?{in_project}", ApiCall("/project/task/list", {}),
                 {f"/ui/project/{of.project}/task/{of.project_task}/": f'"task-id":"{of.project_task}"'}),
        ListPage("/ui/statistics/", ApiCall("/endpoint-statistics", {"warehouse": {"type": "all"}}),
                 {"/catalog/v1/counted": "/catalog/v1/counted"}),
        ListPage(f"/ui/principals/?q=inner&{in_project}", ApiCall("/search/role", {"search": "inner"}),
                 {of.inner_role: of.inner_role}),
        ListPage("/ui/search/?part=results&q=a", ApiCall(f"{warehouse}/search-tabular", {"search": "a"}), tables,
                 is_of_all_projects=True),
        ListPage(f"/ui/access/?{who}", ApiCall(f"/grants?{principal}"), {f"/namespace/{of.namespace}/": of.namespace}),
        ListPage(f"/ui/access/review/?{who}", ApiCall(f"/access-review?{principal}"),
                 {f"/namespace/{of.namespace}/": of.namespace}),
        ListPage(f"/ui/access/review/?{who}&warehouse={of.warehouse}",
                 ApiCall(f"{warehouse}/reached-objects?{principal}"), {each: each for each in tables.values()}),
        ListPage(explain, ApiCall("/permissions/explain", {"operation": checked}), explained, _grants_of_chain),
        ListPage(f"{explain}&who=user:{of.user}",
                 ApiCall("/permissions/explain", {"identity": {"user": of.user}, "operation": checked}), explained,
                 _grants_of_chain),
    ]  # fmt: skip


def pages_with_actions(of: Objects) -> dict[str, ApiCall]:
    """Return by address the call that returns whether the page is open."""
    server, project = "/server/actions", "/project/actions"
    warehouse, at = f"/warehouse/{of.warehouse}", f"/ui/warehouse/{of.warehouse}"
    table = ApiCall(f"{warehouse}/table/{of.table}/actions")
    dropped = f"?warehouse={of.warehouse}&target=table:{next(iter(of.dropped.values()))}"
    task = of.tasks[next(iter(of.dropped))]
    sinks, sink = ApiCall("/event-sinks"), f"/ui/event-sink/{of.sink}"
    rule = ApiCall(f"/change-rules/{of.rule}")
    return {
        f"/ui/event/{of.event}/?project={of.project}": ApiCall(f"/events?projectId={of.project}"),
        f"/ui/event/{of.event}/?warehouse={of.warehouse}": ApiCall(f"/events?warehouseId={of.warehouse}"),
        **{f"/ui/change-rule/{of.rule}/{page}/": rule for page in ("edit", "evaluate", "delete")},
        f"/ui/change-rule/add/?object=project:{of.project}": ApiCall(
            f"/change-rules?scopeType=project&scopeId={of.project}"
        ),
        "/ui/event-sink/add/": sinks,
        **{f"{sink}/{page}/": sinks for page in ("edit", "replay", "skip", "delete", "dead-letters/delete")},
        f"{sink}/dead-letter/{of.letter}/": sinks,
        "/ui/project/add/": ApiCall(server, action="create_project"),
        "/ui/server/": ApiCall(server, action="list_users"),
        "/ui/server/support-bundle/": ApiCall(server, action="list_users"),
        "/ui/identity-provider/": ApiCall(server, action="list_users"),
        "/ui/audit/verify/": ApiCall("/audit"),
        f"/ui/service-account/{of.account.partition('~')[2]}/": ApiCall("/service-account"),
        f"/ui/service-account/{of.account.partition('~')[2]}/delete/": ApiCall("/service-account"),
        f"/ui/token/{of.token}/revoke/": ApiCall(f"/token/{of.token}"),
        f"/ui/project/{of.project}/settings/": ApiCall(project, action="rename", hidden=404),
        f"/ui/project/{of.project}/delete/": ApiCall(project, action="delete", hidden=404),
        f"/ui/project/{of.project}/access/": ApiCall(project, action="get_metadata", hidden=404),
        "/ui/warehouse/add/": ApiCall(project, action="create_warehouse"),
        f"{at}/edit/": ApiCall(f"{warehouse}/actions", action="rename"),
        f"{at}/edit-storage/": ApiCall(f"{warehouse}/actions", action="update_storage"),
        f"{at}/edit-credential/": ApiCall(f"{warehouse}/actions", action="update_storage"),
        f"{at}/validate/": ApiCall(f"{warehouse}/actions", action="update_storage"),
        f"{at}/delete/": ApiCall(f"{warehouse}/actions", action="delete"),
        f"{at}/access/": ApiCall(warehouse),
        f"{at}/namespace/open": ApiCall(warehouse),
        f"{at}/namespace/{of.namespace}/change/?do=drop&target=table:{of.table}": ApiCall(warehouse),
        f"{at}/namespace/{of.namespace}/access/": ApiCall(f"{warehouse}/namespace/{of.namespace}/actions"),
        f"{at}/table/{of.table}/access/": table,
        f"/ui/sql/?warehouse={of.warehouse}&table={of.table}": table,
        f"{at}/task/{task}/": ApiCall(f"{warehouse}/task/by-id/{task}"),
        f"/ui/project/{of.project}/task/{of.project_task}/": ApiCall(project, action="get_project_tasks", hidden=404),
        f"/ui/task/change/?project={of.project}&action=cancel&task={of.project_task}": ApiCall(
            project, action="get_project_tasks", hidden=404
        ),
        f"/ui/task/change/?warehouse={of.warehouse}&action=cancel&task={task}": ApiCall(warehouse),
        f"/ui/deleted/restore/{dropped}": ApiCall(f"{warehouse}/deleted-tabulars"),
        f"/ui/deleted/delete/{dropped}": ApiCall(f"{warehouse}/deleted-tabulars"),
        f"/ui/role/{of.role}/nesting/": ApiCall(f"/role/{of.role}"),
        f"/ui/role/{of.role}/settings/": ApiCall(f"/role/{of.role}"),
        f"/ui/role/{of.role}/access/": ApiCall(f"/role/{of.role}/actions"),
        f"/ui/role/{of.role}/delete/": ApiCall(f"/role/{of.role}/actions", action="delete"),
        f"/ui/tag/{of.tag}/delete/": ApiCall(f"/tag-definition/{of.tag}/actions", action="delete"),
        f"/ui/user/{of.user}/": ApiCall(f"/user/{of.user}"),
        f"/ui/user/{of.user}/delete/": ApiCall(f"/user/{of.user}/actions", action="delete"),
        f"/ui/access/object/{of.on_table}/": table,
        "/ui/access/object/server/": ApiCall(server),
        "/ui/server/access/": ApiCall(server),
        f"/ui/catalog/tree/?node=warehouse:{of.warehouse}": ApiCall(warehouse),
        "/ui/": ApiCall("/whoami"),
        "/ui/catalog/": ApiCall("/whoami"),
        "/ui/profile/": ApiCall("/whoami"),
    }


@dataclass(frozen=True)
class SentForm:
    """A form, and the call that needs the same permission."""

    address: str
    fields: Mapping[str, str]
    call: ApiCall


def sent_forms(of: Objects) -> list[SentForm]:
    """Return the forms without a page: what they send changes something, or shows what it would change."""
    warehouse, at = f"/warehouse/{of.warehouse}", f"/ui/warehouse/{of.warehouse}"
    access, to = f"/ui/access/object/{of.on_table}", {"privilege": "select", "grantee": f"user:{of.user}"}
    assignments = f"/permissions/warehouse/{of.warehouse}/table/{of.table}/assignments"
    grant = ApiCall(assignments, {"writes": [{"type": "select", "user": "oidc~engineer"}]})
    uuid = next(iter(of.dropped.values()))
    revoked = {
        "who": f"user:{of.user}", "project": of.project, "revoke": f"select namespace:{of.warehouse}:{of.namespace}",
    }  # fmt: skip
    undrop = {"targets": [{"type": "table", "id": uuid}]}
    return [
        SentForm(f"/ui/project/{of.project}/task/{of.project_task}/", {"action": "run-now"},
                 ApiCall("/project/actions", action="control_project_tasks", hidden=404)),
        SentForm(f"{access}/grant/", to, grant),
        SentForm(f"{access}/preview/", to, ApiCall(assignments)),
        SentForm(f"{access}/save/", {"grant": f"select user:{of.user}", "digest": "x"}, grant),
        SentForm(f"/ui/access/object/namespace:{of.warehouse}:{of.namespace}/managed-access/", {"managed": "on"},
                 ApiCall(f"/permissions/namespace/{of.namespace}/managed-access", {"managed-access": True})),
        SentForm("/ui/access/revoke/", revoked, ApiCall(f"/grants?{urlencode({'principalUser': of.user})}")),
        SentForm(f"{at}/table/{of.table}/protection/", {"protected": "true"},
                 ApiCall(f"{warehouse}/table/{of.table}/protection", {"protected": True})),
        SentForm(f"{at}/table/{of.table}/tags/", {"action": "attach", "name": "pii"},
                 ApiCall(f"{warehouse}/table/{of.table}/tags/pii", {}, "PUT")),
        SentForm(f"{at}/table/{of.table}/files/reading/", {"snapshot": "1"},
                 ApiCall(f"{warehouse}/table/{of.table}/actions", action="read_data")),
        SentForm("/ui/deleted/undo/", {"warehouse": of.warehouse, "target": f"table:{uuid}"},
                 ApiCall(f"{warehouse}/deleted-tabulars/undrop", undrop)),
    ]  # fmt: skip
