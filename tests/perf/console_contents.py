"""The contents of the catalog whose console is measured, filled by SQL: a request for each object would take hours.

Metadata documents are copies of those of three tables and a view that the server itself created. Numbers are spread
evenly, without randomness, so that two runs measure the same pages. One namespace contains a fifth of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg

ADMIN, ENGINEER = "local~root", "local~engineer"
WAREHOUSES: Final = ("lake", *(f"lake_{number}" for number in range(2, 11)))
TEMPLATES: Final = "templates"
"""Namespace of the tables whose documents are copied."""

TEMPLATE_SHAPES: Final = {"small": (10, 2), "medium": (40, 20), "large": (150, 200)}
"""Columns and snapshots of the templates; 2 % of the tables are large, 18 % medium."""

TEMPLATE_VIEW: Final = "shown"
GRANTED_NAMESPACES, GRANTED_TABLES, ENGINEER_ROLES = 3, 20, 5
"""What the data engineer has grants on, and is a member of."""

GRANTS_A_ROLE, GRANTS_A_USER, ROLES_A_USER = 20, 4, 5
HOURS, ENDPOINTS = 24 * 60, 12
HOURS_OF_TASKS = 24 * 7
RULES: Final = 500
"""Change rules; a hundredth of the audit records are their findings, but the first rule has none."""

_KINDS: Final = (
    "namespace", "table", "role", "task", "tag", "account", "token", "session", "attempt", "row", "audit",
    "project-task", "sink", "rule",
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Numbers of objects. Dropped tables come in addition to `tables`."""

    tables: int
    namespaces: int
    roles: int
    audit_records: int
    users: int
    tasks: int

    @property
    def roots(self) -> int:
        return max(10, self.namespaces // 100)

    @property
    def inner(self) -> int:
        """The number of namespaces of the first two levels."""
        return max(self.roots + 10, self.namespaces // 10)

    @property
    def dropped(self) -> int:
        return self.tables // 20


def object_id(kind: str, number: str) -> str:
    """Return the SQL of the id of the object with this number of a kind: a UUIDv7 that grows with the number."""
    begin = f"019a0000-00{_KINDS.index(kind):02x}-7000-8000-"
    return f"('{begin}' || lpad(to_hex(({number})::bigint), 12, '0'))::uuid"


def read_id(kind: str, number: int) -> str:
    """Return the same id as text."""
    return f"019a0000-00{_KINDS.index(kind):02x}-7000-8000-{number:012x}"


class Fill:
    """Fills the tables of a database that has the warehouses and the templates. One transaction for each subject."""

    def __init__(self, connection: psycopg.Connection[Any], sizes: Sizes, note: Callable[[str], None]) -> None:
        self._connection = connection
        self._sizes = sizes
        self._note = note
        self._at = {"T": sizes.tables, "N": sizes.namespaces, "ROOTS": sizes.roots, "INNER": sizes.inner}

    def run(self) -> None:
        self._connection.execute("SET session_replication_role = replica")  # no checks of foreign keys row by row
        self._connection.execute("SET synchronous_commit = off")
        self._connection.execute("SET maintenance_work_mem = '512MB'")
        self._connection.execute("SET work_mem = '256MB'")
        for name, fill in {
            "namespaces": self._fill_namespaces,
            "tables": self._fill_tables,
            "metadata": self._fill_metadata,
            "users and roles": self._fill_principals,
            "grants": self._fill_grants,
            "tasks and dropped tables": self._fill_tasks,
            "accounts, tags and statistics": self._fill_others,
            "audit records": self._fill_audit,
            "events": self._fill_events,
            "change rules": self._fill_rules,
        }.items():
            with self._connection.transaction():
                fill()
            self._note(name)
        self._connection.execute("SET session_replication_role = DEFAULT")
        self._connection.execute("VACUUM (ANALYZE)")
        self._note("vacuum and statistics")

    def _run(self, sql: str, **names: Any) -> None:
        for name, value in {**self._at, **names}.items():
            sql = sql.replace(f"<{name}>", str(value))
        self._connection.execute(sql)

    def _insert(self, table: str, source: str, **columns: Any) -> None:
        """Insert the rows of `source`, with SQL by column; columns that are not named and not nullable are empty."""
        found = self._connection.execute(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s AND is_nullable = 'NO'"
            " AND column_default IS NULL AND is_identity = 'NO'",
            [table],
        ).fetchall()
        empty = {name: _EMPTY[kind] for name, kind in found if name not in columns}
        values = {**empty, **columns}
        names = ", ".join(f'"{name}"' for name in values)
        self._run(f"INSERT INTO {table} ({names}) SELECT {', '.join(map(str, values.values()))} FROM {source}")  # noqa: S608

    def _copy(self, table: str, source: str, row: str, **columns: str) -> None:
        """Insert copies of `row`, a row of the same table in `source`, with other values in some columns."""
        found = self._connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_identity = 'NO'", [table]
        ).fetchall()
        values = {name: f"{row}.{name}" for (name,) in found} | columns
        names = ", ".join(f'"{name}"' for name in values)
        self._run(f"INSERT INTO {table} ({names}) SELECT {', '.join(values.values())} FROM {source}")  # noqa: S608

    def _without_indexes(self, table: str, fill: Callable[[], None]) -> None:
        """Run `fill` without the indexes of a table, and create them afterwards."""
        found = self._connection.execute(
            "SELECT i.indexname, i.indexdef FROM pg_indexes i WHERE i.tablename = %s AND NOT EXISTS"
            " (SELECT FROM pg_constraint c WHERE c.conname = i.indexname)",
            [table],
        ).fetchall()
        for name, _ in found:
            self._connection.execute(f'DROP INDEX "{name}"')
        fill()
        for _, definition in found:
            self._connection.execute(definition)

    def _fill_namespaces(self) -> None:
        """Three levels; the first tenth is above the others, and its first tenth is at the top."""
        self._run("CREATE TEMP TABLE b_warehouse AS SELECT row_number() OVER (ORDER BY name) AS w, id,"
                  " 'warehouse:' || id AS key FROM storage_warehouse")  # fmt: skip
        self._run(
            "CREATE TEMP TABLE b_ns AS SELECT n, CASE WHEN n <= <ROOTS> THEN NULL"
            " WHEN n <= <INNER> THEN 1 + n % <ROOTS> ELSE <ROOTS> + 1 + n % (<INNER> - <ROOTS>) END AS parent,"
            " <ID> AS id, NULL::int AS w, ''::text AS path, ''::text AS securable FROM generate_series(1, <N>) AS n",
            ID=object_id("namespace", "n"),
        )
        self._run(
            "UPDATE b_ns SET w = CASE WHEN n <= <ROOTS> * 8 / 10 THEN 1 ELSE 2 + n % 9 END,"
            " path = 'domain_' || lpad(n::text, 4, '0') WHERE n <= <ROOTS>"
        )
        self._run("UPDATE b_ns SET securable = s.path || 'namespace:' || b_ns.id || '/' FROM b_warehouse AS b,"
                  " tenancy_securable AS s WHERE n <= <ROOTS> AND b.w = b_ns.w AND s.id = b.key")  # fmt: skip
        for low, high, name in (("<ROOTS>", "<INNER>", "team"), ("<INNER>", "<N>", "set")):
            self._run(
                f"UPDATE b_ns SET w = p.w, path = p.path || chr(31) || '{name}_' || lpad(b_ns.n::text, 5, '0'),"  # noqa: S608
                f" securable = p.securable || 'namespace:' || b_ns.id || '/' FROM b_ns AS p"
                f" WHERE p.n = b_ns.parent AND b_ns.n > {low} AND b_ns.n <= {high}"
            )
        self._run("CREATE INDEX ON b_ns (n)")
        self._run("ANALYZE b_ns")
        self._insert(
            "catalog_namespace", "b_ns JOIN b_warehouse AS b USING (w) LEFT JOIN b_ns AS p ON p.n = b_ns.parent",
            id="b_ns.id", warehouse_id="b.id", parent_id="p.id", path="b_ns.path", path_key="b_ns.path",
            properties="""'{"owner": "data platform", "comment": "of the benchmark"}'""",
            version="1", created_at="now()", updated_at="now()",
        )  # fmt: skip
        self._insert(
            "tenancy_securable", "b_ns JOIN b_warehouse AS b USING (w) LEFT JOIN b_ns AS p ON p.n = b_ns.parent",
            id="'namespace:' || b_ns.id", type="'namespace'", object_id="b_ns.id::text",
            parent_id="coalesce('namespace:' || p.id, b.key)", path="b_ns.securable",
        )  # fmt: skip

    def _fill_tables(self) -> None:
        """A fifth in the first namespace, the others in those of the lowest level; then the dropped ones."""
        dropped = self._sizes.dropped
        self._run(
            "CREATE TEMP TABLE b_tab AS SELECT n, <ID> AS id, n > <T> AS is_dropped,"
            " CASE WHEN n <= <T> / 5 THEN 1 ELSE <INNER> + 1 + n % (<N> - <INNER>) END AS ns,"
            " CASE WHEN n > <T> THEN 'table' WHEN n % 50 = 49 THEN 'generic-table' WHEN n % 50 > 44 THEN 'view'"
            " ELSE 'table' END AS kind,"
            " (ARRAY['orders', 'customers', 'page_views', 'invoices', 'shipments', 'sensor_readings', 'clicks'])"
            "[1 + n % 7] || '_' || lpad(n::text, 6, '0') AS name"
            " FROM generate_series(1, <T> + <DROPPED>) AS n",
            ID=object_id("table", "n"), DROPPED=dropped,
        )  # fmt: skip
        self._run("CREATE INDEX ON b_tab (n)")
        self._run("ANALYZE b_tab")
        source = "b_tab JOIN b_ns ON b_ns.n = b_tab.ns JOIN b_warehouse AS b USING (w)"
        location = "'file:///bench/' || b.id || '/' || b_tab.id"
        self._without_indexes("catalog_tabular", lambda: self._insert(
            "catalog_tabular", source, id="b_tab.id", uuid="b_tab.id", warehouse_id="b.id", namespace_id="b_ns.id",
            kind="kind", name="name", name_key="name", location=location,
            metadata_location=f"CASE kind WHEN 'generic-table' THEN '' ELSE {location} || '/metadata/00001.json' END",
            committed_at="CASE kind WHEN 'table' THEN now() - b_tab.n * interval '1 minute' END",
            committed_by="CASE kind WHEN 'table' THEN 'oidc~user-' || 1 + b_tab.n % 100 END",
            engine="CASE kind WHEN 'table' THEN 'Spark 4.0' END",
            deleted_at="CASE WHEN is_dropped THEN now() - b_tab.n % 1000 * interval '5 minutes' END",
            created_at="now()", updated_at="now()",
        ))  # fmt: skip
        self._without_indexes("tenancy_securable", lambda: self._insert(
            "tenancy_securable", source, id="kind || ':' || b_tab.id", type="kind", object_id="b_tab.id::text",
            parent_id="'namespace:' || b_ns.id", path="b_ns.securable || kind || ':' || b_tab.id || '/'",
        ))  # fmt: skip
        self._insert("catalog_generictable", "b_tab WHERE kind = 'generic-table'", tabular_id="id", format="'lance'")

    def _fill_metadata(self) -> None:
        self._run(
            "CREATE TEMP TABLE b_doc AS SELECT t.name, t.id, t.uuid::text AS uuid, t.location, m.*,"  # noqa: S608
            " convert_from(m.document, 'UTF8') AS text FROM catalog_tabular AS t"
            " JOIN catalog_namespace AS n ON n.id = t.namespace_id JOIN catalog_tabularmetadata AS m"
            f" ON m.tabular_id = t.id WHERE n.path = '{TEMPLATES}'"
        )
        source = (
            "catalog_tabular AS t JOIN b_tab ON b_tab.id = t.id JOIN b_doc AS d ON d.name = CASE WHEN t.kind = 'view'"
            f" THEN '{TEMPLATE_VIEW}' WHEN b_tab.n % 50 = 7 THEN 'large' WHEN b_tab.n % 50 < 10 THEN 'medium'"
            " ELSE 'small' END"
        )
        document = "convert_to(replace(replace(d.text, d.location, t.location), d.uuid, t.uuid::text), 'UTF8')"
        self._copy(
            "catalog_tabularmetadata", f"{source} WHERE t.kind <> 'generic-table'", "d",
            tabular_id="t.id", document=document,
        )  # fmt: skip
        self._copy(
            "catalog_tabletotals", f"{source} JOIN catalog_tabletotals AS s ON s.tabular_id = d.id", "s",
            tabular_id="t.id", records="b_tab.n::bigint * 7919 % 1000000007",
            files_size="b_tab.n::bigint * 104729 % 1000000007 * 100",
        )  # fmt: skip
        extra = "'measure_' || b_tab.n % 2000 || chr(10)"
        self._without_indexes("catalog_tabularcolumns", lambda: self._copy(
            "catalog_tabularcolumns", f"{source} JOIN catalog_tabularcolumns AS s ON s.tabular_id = d.id", "s",
            tabular_id="t.id", names=f"s.names || {extra}", keys=f"s.keys || {extra}",
        ))  # fmt: skip
        self._copy(
            "catalog_snapshot", f"{source} JOIN catalog_snapshot AS s ON s.tabular_id = d.id WHERE t.kind = 'table'",
            "s", tabular_id="t.id",
        )  # fmt: skip

    def _fill_principals(self) -> None:
        """Users with roles, which are nested: each role is in another one, with three in each."""
        sizes = {"ROLES": self._sizes.roles, "USERS": self._sizes.users}
        self._insert(
            "tenancy_user", f"generate_series(1, {self._sizes.users}) AS n", id="'oidc~user-' || n",
            name="'User ' || n", name_key="'user ' || n", email="'user-' || n || '@example.com'", user_type="'human'",
            last_updated_with="'create-endpoint'", is_active="true", password="'!'", created_at="now()",
            updated_at="now()",
        )  # fmt: skip
        self._run("CREATE TEMP TABLE b_project AS SELECT p.id, s.path FROM tenancy_project AS p JOIN tenancy_securable"
                  " AS s ON s.id = 'project:' || p.id ORDER BY p.created_at LIMIT 1")  # fmt: skip
        role = object_id("role", "n")
        roles = f"generate_series(1, {self._sizes.roles}) AS n, b_project AS p"
        self._insert(
            "tenancy_role", roles, id=role, project_id="p.id", name="'Team ' || lpad(n::text, 4, '0')",
            name_key="'team ' || lpad(n::text, 4, '0')", provider_id="'lakekeeper'", source_id=f"{role}::text",
            created_at="now()",
        )  # fmt: skip
        self._insert(
            "tenancy_securable", roles, id=f"'role:' || {role}", type="'role'", object_id=f"{role}::text",
            parent_id="'project:' || p.id", path=f"p.path || 'role:' || {role} || '/'",
        )  # fmt: skip
        members = {"id": "gen_random_uuid()", "created_at": "now()"}
        self._insert("tenancy_rolemember", "generate_series(2, <ROLES>) AS n".replace("<ROLES>", str(sizes["ROLES"])),
                     role_id=object_id("role", "1 + (n - 2) / 3"), member_role_id=role, **members)  # fmt: skip
        self._insert(
            "tenancy_rolemember",
            f"generate_series(1, {self._sizes.users}) AS u, generate_series(0, {ROLES_A_USER - 1}) AS r",
            role_id=object_id("role", f"1 + (u * 13 + r * 199) % {self._sizes.roles}"), user_id="'oidc~user-' || u",
            **members,
        )  # fmt: skip
        self._insert(
            "tenancy_rolemember", f"generate_series(0, {ENGINEER_ROLES - 1}) AS r",
            role_id=object_id("role", f"1 + (7 + r * 199) % {self._sizes.roles}"), user_id=f"'{ENGINEER}'", **members,
        )  # fmt: skip

    def _fill_grants(self) -> None:
        """Each role and user has grants on tables and, one in four, on a namespace; the engineer has a few of each."""
        self._run("CREATE TEMP TABLE b_object AS SELECT row_number() OVER () - 1 AS o, s.id, s.path FROM (SELECT s.id,"
                  " s.path FROM b_tab JOIN tenancy_securable AS s ON s.id = b_tab.kind || ':' || b_tab.id"
                  " WHERE kind = 'table' AND NOT is_dropped ORDER BY n) AS s")  # fmt: skip
        self._run("CREATE INDEX ON b_object (o)")
        self._run("ANALYZE b_object")
        (count,) = self._connection.execute("SELECT count(*) FROM b_object").fetchone() or (0,)
        on_table = {"id": "gen_random_uuid()", "securable_id": "o.id", "path": "o.path", "created_at": "now()"}
        on_namespace = {**on_table, "securable_id": "'namespace:' || b_ns.id", "path": "b_ns.securable"}
        for number, each, grantee in (
            (self._sizes.roles, GRANTS_A_ROLE, {"role_id": object_id("role", "u")}),
            (self._sizes.users, GRANTS_A_USER, {"user_id": "'oidc~user-' || u"}),
        ):
            both = f"generate_series(1, {number}) AS u, generate_series(1, {each}) AS g"
            self._insert(
                "tenancy_grant", f"{both}, b_object AS o WHERE g % 4 <> 0 AND o.o = (u * 997 + g * 7919) % {count}",
                privilege="'select'", **grantee, **on_table,
            )  # fmt: skip
            self._insert(
                "tenancy_grant",
                f"{both}, b_ns WHERE g % 4 = 0 AND b_ns.n = <ROOTS> + 1 + (u * 31 + g) % (<N> - <ROOTS>)",
                privilege="'select'", **grantee, **on_namespace,
            )  # fmt: skip
        own = {"user_id": f"'{ENGINEER}'"}
        self._insert("tenancy_grant", f"b_ns WHERE n > <ROOTS> AND n <= <ROOTS> + {GRANTED_NAMESPACES}",
                     privilege="'select'", **own, **on_namespace)  # fmt: skip
        self._insert("tenancy_grant", f"b_object AS o WHERE o.o % {max(1, count // GRANTED_TABLES)} = 3",
                     privilege="'modify'", **own, **on_table)  # fmt: skip

    def _fill_tasks(self) -> None:
        """Ended purges, of which one in 500 failed, the expiration of each dropped table, and tasks of the project."""
        task = object_id("task", "n")
        finished = "now() - n * interval '20 seconds'"
        self._insert(
            "tasks_task",
            f"generate_series(1, {self._sizes.tasks}) AS n JOIN b_warehouse AS b ON b.w = 1 + n % 10, b_project AS p",
            id=task, queue="'tabular_purge'", project_id="p.id", warehouse_id="b.id", entity_type="'table'",
            entity_id=object_id("row", "n"), entity_uuid=object_id("row", "n"),
            entity_name="jsonb_build_array('domain_0001', 'purged_' || n)", payload="'{}'", payload_version="1",
            status="CASE WHEN n % 500 = 0 THEN 'failed' ELSE 'success' END", scheduled_for=finished, attempt="1",
            progress="1", execution_details="""'{"deleted": 12}'""", created_at=finished, finished_at=finished,
            message="CASE WHEN n % 500 = 0 THEN 'AccessDenied: the store denied the request' ELSE '' END",
        )  # fmt: skip
        self._insert(
            "tasks_taskattempt", f"generate_series(1, {self._sizes.tasks}) AS n", id=object_id("attempt", "n"),
            task_id=task, attempt="1", status="CASE WHEN n % 500 = 0 THEN 'failed' ELSE 'success' END",
            started_at=finished, scheduled_for=finished, progress="1", created_at=finished,
        )  # fmt: skip
        self._insert(
            "tasks_task",
            "b_tab JOIN b_ns ON b_ns.n = b_tab.ns JOIN b_warehouse AS b USING (w), b_project AS p WHERE is_dropped",
            id=object_id("task", f"{self._sizes.tasks} + b_tab.n"), queue="'soft_deletion'", project_id="p.id",
            warehouse_id="b.id", entity_type="'table'", entity_id="b_tab.id", entity_uuid="b_tab.id",
            entity_name="to_jsonb(string_to_array(b_ns.path, chr(31)) || b_tab.name)", payload="'{}'",
            payload_version="1", status="'scheduled'", scheduled_for="now() + b_tab.n % 1000 * interval '20 minutes'",
            created_at="now()",
        )  # fmt: skip
        started = "now() - n * interval '1 hour'"
        self._insert(
            "tasks_task", f"generate_series(0, {HOURS_OF_TASKS}) AS n, b_project AS p",
            id=object_id("project-task", "n"), queue="'statistics'", project_id="p.id",
            warehouse_id="'00000000-0000-0000-0000-000000000000'", entity_type="'project'",
            entity_id="'00000000-0000-0000-0000-000000000000'", entity_name="'[]'", payload="'{}'",
            payload_version="1", status="CASE WHEN n = 0 THEN 'failed' ELSE 'success' END", scheduled_for=started,
            attempt="1", progress="1", created_at=started, finished_at=started,
            message="CASE WHEN n = 0 THEN 'OperationalError: the connection is lost' ELSE '' END",
        )  # fmt: skip

    def _fill_others(self) -> None:
        account = object_id("account", "n")
        self._insert("tenancy_user", "generate_series(1, 200) AS n", id=f"'icekeeper~' || {account}",
                     name="'Job ' || n", name_key="'job ' || n", user_type="'application'", is_active="true",
                     last_updated_with="'create-endpoint'", password="'!'", created_at="now()",
                     updated_at="now()")  # fmt: skip
        self._insert("tenancy_serviceaccount", "generate_series(1, 200) AS n", id=account,
                     user_id=f"'icekeeper~' || {account}", name="'Job ' || n", name_key="'job ' || n",
                     created_at="now()", created_by=f"'{ADMIN}'")  # fmt: skip
        self._insert("tenancy_accesstoken", "generate_series(1, 200) AS n, generate_series(0, 2) AS t",
                     id=object_id("token", "n * 3 + t"), user_id=f"'icekeeper~' || {account}", name="'Token ' || t",
                     prefix="'ik_' || n", digest="md5(n || '-' || t) || md5(t || '-' || n)", scopes="'catalog'",
                     created_at="now()", created_by=f"'{ADMIN}'", expires_at="now() + interval '30 days'")  # fmt: skip
        self._insert("management_consolesession", f"generate_series(1, {min(2000, self._sizes.users)}) AS n",
                     id=object_id("session", "n"), session_key="md5('a' || n) || md5('b' || n)",
                     expire_date="now() + interval '8 hours'", user_id="'oidc~user-' || n", method="'provider'",
                     created_at="now()", last_seen_at="now()")  # fmt: skip
        tag, table = object_id("tag", "n"), object_id("table", "n")
        self._insert("tenancy_tagdefinition", "generate_series(1, 100) AS n, b_project AS p", id=tag,
                     project_id="p.id", name="'tag ' || lpad(n::text, 3, '0')",
                     name_key="'tag ' || lpad(n::text, 3, '0')", value_kind="'marker'", scope="""'["table"]'""",
                     allowed_values="'[]'", created_at="now()")  # fmt: skip
        self._insert("tenancy_securable", "generate_series(1, 100) AS n, b_project AS p", id=f"'tag:' || {tag}",
                     type="'tag'", object_id=f"{tag}::text", parent_id="'project:' || p.id",
                     path=f"p.path || 'tag:' || {tag} || '/'")  # fmt: skip
        self._insert("tenancy_tagattachment", "b_tab WHERE kind = 'table' AND n % 5 = 0", id="gen_random_uuid()",
                     definition_id=object_id("tag", "1 + n / 5 % 100"), securable_id="'table:' || id",
                     created_at="now()")  # fmt: skip
        hour = "date_trunc('hour', now()) - h * interval '1 hour'"
        hours = f"generate_series(1, {HOURS}) AS h CROSS JOIN b_warehouse AS b"
        self._insert("management_endpointstatistic", f"{hours}, generate_series(1, {ENDPOINTS}) AS e, b_project AS p",
                     project_id="p.id", warehouse_id="b.id", status="CASE e WHEN 12 THEN 404 ELSE 200 END", hour=hour,
                     endpoint="CASE e WHEN 1 THEN 'POST /catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}'"
                     " ELSE 'GET /catalog/v1/{prefix}/endpoint-' || e END", count="100 + h % 24 * e",
                     created_at=hour)  # fmt: skip
        with_project = f"{hours}, b_project AS p"
        self._insert("management_callhour", with_project, project_id="p.id", warehouse_id="b.id", hour=hour,
                     succeeded="1100 + h % 24 * 66", client_errors="100 + h % 24 * 12", server_errors="0",
                     commits="100 + h % 24")  # fmt: skip
        self._insert("management_loadduration", f"{with_project}, unnest(ARRAY[2, 5, 10, 20, 100]) AS l",
                     project_id="p.id", warehouse_id="b.id", hour=hour, limit_ms="l", count="100 / l")  # fmt: skip
        self._insert("catalog_warehousestatistic", hours, warehouse_id="b.id", hour=hour, tables="<T> / b.w",
                     views="<T> / 20 / b.w", generic_tables="1", updated_at="now()")  # fmt: skip
        self._insert("catalog_warehousesize", hours, warehouse_id="b.id", hour=hour,
                     records="(10000 - h) * 1000000::bigint", files_size="(10000 - h) * 100000000::bigint",
                     data_files="10000 - h", snapshots="(10000 - h) * 10")  # fmt: skip
        self._run("CREATE TEMP TABLE b_large AS SELECT t.warehouse_id, t.id, m.records, m.files_size, row_number() OVER"
                  " (PARTITION BY t.warehouse_id ORDER BY m.files_size DESC NULLS LAST) AS r FROM catalog_tabular AS t"
                  " JOIN catalog_tabletotals AS m ON m.tabular_id = t.id WHERE t.deleted_at IS NULL")  # fmt: skip
        self._insert("catalog_largetable", "b_large WHERE r <= 10", warehouse_id="warehouse_id", rank="r",
                     tabular_id="id", records="records", files_size="coalesce(files_size, 0)",
                     data_files="4")  # fmt: skip
        self._insert("catalog_slowtable", "b_large WHERE r <= 10", warehouse_id="warehouse_id", rank="r",
                     tabular_id="id", scans="100 + r", planning_us="1000000 * (100 + r) / r", result_data_files="5000",
                     result_delete_files="9000", result_data_bytes="1000000000")  # fmt: skip
        measured = f"b_tab, generate_series(0, 29) AS d WHERE n % {max(1, self._sizes.tables // 1000)} = 0"
        self._insert("catalog_metricsday", measured, tabular_id=table, day="current_date - d", scans="10 + d",
                     planning_us="100000")  # fmt: skip

    def _fill_audit(self) -> None:
        """Sealed records of 90 days, the oldest first."""
        count = self._sizes.audit_records
        (last,) = self._connection.execute("SELECT coalesce(max(position), 0) FROM tenancy_auditrecord").fetchone() or (
            0,
        )
        at = f"now() - interval '90 days' + n * (interval '90 days' / {count + 1})"
        event = "(ARRAY['table.committed', 'table.loaded', 'grant.created', 'role_member.added', 'table.created'])"
        warehouses = "b_warehouse AS w ON w.w = 1 + n / 100 % (SELECT count(*) FROM b_warehouse)"
        finding = (
            f"""'{{"rule":"' || {object_id("rule", f"1 + n / 100 % {RULES - 1}")} || '","violation":"it must not be """
            """dropped","warehouse":"' || w.id || '","namespaces":{"' || """
            f"""{object_id("namespace", "1 + n / 100 % <ROOTS>")} || '":"domain_0001"}},"levels":["domain_0001"]}}'"""
        )
        self._without_indexes("tenancy_auditrecord", lambda: self._insert(
            "tenancy_auditrecord", f"generate_series(1, {count}) AS n JOIN {warehouses}, b_project AS p",
            id=object_id("audit", "n"), position=f"{last} + n", at=at, count="1",
            event=f"CASE n % 100 WHEN 0 THEN 'change.vetoed' ELSE {event}[1 + n % 5] END",
            action="CASE n % 4 WHEN 0 THEN 'get_metadata' ELSE '' END",
            outcome="CASE n % 50 WHEN 0 THEN 'denied' ELSE 'allowed' END", privilege_source="'authorizer'",
            actor=f"'oidc~user-' || 1 + n * 7919::bigint % {self._sizes.users}", object_type="'table'",
            object_id=f"{object_id('table', '1 + n % <T>')}::text", project_id="p.id",
            request_id=object_id("row", "n"), address="'10.0.0.' || n % 250", user_agent="'PyIceberg/0.10.0'",
            details=f"""CASE n % 100 WHEN 0 THEN {finding}
                ELSE '{{"warehouse": "lake", "name": "domain_0001.orders"}}' END""",
            previous_hash="md5(n::text) || md5(n::text)", hash="md5(n::text) || md5(n::text)",
        ))  # fmt: skip
        self._run(f"UPDATE tenancy_auditchain SET position = {last + count}")  # noqa: S608

    def _fill_events(self) -> None:
        """As many events as audit records, of tables of all warehouses, and a sink with dead letters."""
        count = self._sizes.audit_records
        table = object_id("table", "1 + n % <T>")
        self._without_indexes("tenancy_outboxevent", lambda: self._insert(
            "tenancy_outboxevent", f"generate_series(1, {count}) AS n, b_project AS p", event_id=object_id("row", "n"),
            object_key=f"'table:' || {table} || ':' || n", sequence="1", type="'updateTable'",
            at=f"now() - interval '30 days' + n * (interval '30 days' / {count + 1})", public_id=f"{table}::text",
            names="""'["domain_0001", "orders"]'""", project_id="p.id",
            warehouse_id="(SELECT id FROM b_warehouse AS b WHERE b.w = 1 + n % (SELECT count(*) FROM b_warehouse))",
            actor="'oidc~user-17'", event_count="1", data="""'{"updates": []}'""",
        ))  # fmt: skip
        self._run("UPDATE tenancy_outboxstate SET published_through = (SELECT max(position) FROM tenancy_outboxevent)")
        sink, document = object_id("sink", "0"), """'{"type": "webhook", "url": "https://127.0.0.1:9/"}'"""
        self._insert("events_eventsink", "generate_series(0, 0) AS n", id=sink, name="'pipeline'", type="'webhook'",
                     configuration=document, secret_names="'[]'", payload="'full'", version="1", is_paused="true",
                     position=str(count // 2), last_error="'the webhook responded with status 503'")  # fmt: skip
        self._insert("events_deadletter", "generate_series(1, 1000) AS n", sink_id=sink, position="n",
                     type="'updateTable'", object_key="'table:' || n", error="'the webhook responded with status 422'",
                     event="""'{"type": "updateTable", "data": null}'""")  # fmt: skip

    def _fill_rules(self) -> None:
        """Rules of warehouses."""
        self._insert("catalog_changerule", f"generate_series(0, {RULES - 1}) AS n", id=object_id("rule", "n"),
                     securable_id="(SELECT 'warehouse:' || id FROM b_warehouse AS b"
                     " WHERE b.w = 1 + n % (SELECT count(*) FROM b_warehouse))",
                     name="'rule ' || n", name_key="'rule ' || n", kind="'protected'", mode="'enforce'",
                     on_failure="'deny'", configuration="""'{"object-tag": "pii"}'""", is_enabled="true",
                     version="1")  # fmt: skip


_EMPTY: Final[Mapping[str, str]] = {
    "character varying": "''", "text": "''", "bigint": "0", "integer": "0", "smallint": "0", "boolean": "false",
    "double precision": "0", "jsonb": "'{}'", "timestamp with time zone": "now()", "uuid": "gen_random_uuid()",
    "bytea": r"'\x'", "date": "current_date",
}  # fmt: skip
