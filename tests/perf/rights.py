"""The cost of authorization: the same reads by the same callers on two servers of one database, one with
authorization.

10,000 tables in ten namespaces, 1,000 users, 100 nested roles, 20,000 grants. Half of the grants are for users, half
for roles; fifty callers load tables that either kind of grant allows, so that most permissions are not cached.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from joserfc.jwk import RSAKey

from tests.harness.identity_provider import IdentityProvider
from tests.parts.server import CatalogServer
from tests.perf.connection import Connection, request
from tests.perf.contents import MAKERS, Contents, new_table
from tests.perf.load import Requests

NAMESPACES, TABLES_EACH = 10, 1_000
USERS, ROLES, GRANTS = 1_000, 100, 20_000
ROLES_EACH: Final = 3
CALLERS, LOADS_EACH = 50, 40
"""Who is busy, and how many tables each of them loads in turn: a caller's first request is measured apart."""

BACKENDS = ("allowall", "builtin")


@dataclass(frozen=True)
class AuthorizedReads:
    """Requests of one kind, each with the token of its caller."""

    key: str
    title: str
    messages: list[bytes]

    def operations(self, client: int) -> Requests:
        begin = client * len(self.messages) // 8
        return itertools.cycle([[message] for message in self.messages[begin:] + self.messages[:begin]])


def create_tables(catalog: Contents, port: int) -> None:
    def create(maker: int) -> None:
        connection = Connection(port)
        for number in range(maker, NAMESPACES * TABLES_EACH, MAKERS):
            at = f"{catalog.prefix}/namespaces/authorized_{number // TABLES_EACH}/tables"
            connection.call("POST", at, new_table(f"table_{number % TABLES_EACH:03d}"))
        connection.close()

    connection = Connection(port)
    for number in range(NAMESPACES):
        connection.call(
            "POST", f"{catalog.prefix}/namespaces", {"namespace": [f"authorized_{number}"], "properties": {}}
        )
    connection.close()
    with ThreadPoolExecutor(MAKERS) as makers:
        list(makers.map(create, range(MAKERS)))


def grant(database_url: str) -> list[tuple[int, str, str]]:
    """Create users, roles and grants; return the permitted loads: user, namespace, table."""
    chance = random.Random(20_000)
    with psycopg.connect(database_url, autocommit=True) as database:
        tables = database.execute(
            "SELECT t.id, n.path, t.name FROM catalog_tabular t JOIN catalog_namespace n ON n.id = t.namespace_id"
            " WHERE n.path LIKE 'authorized_%' ORDER BY t.id"
        ).fetchall()
        role_ids = [uuid.uuid4() for _ in range(ROLES)]
        members: list[tuple[Any, ...]] = [
            (role_ids[(number - 1) // 3], None, role_ids[number]) for number in range(1, ROLES)
        ]
        grants: list[tuple[Any, ...]] = []
        loads: list[tuple[int, str, str]] = []
        of_role: dict[int, list[tuple[Any, ...]]] = {}
        for number in range(GRANTS // 2):
            role, table = number % ROLES, chance.choice(tables)
            of_role.setdefault(role, []).append(table)
            grants.append((None, role_ids[role], f"table:{table[0]}"))
        for user in range(USERS):
            own = chance.sample(tables, GRANTS // 2 // USERS)
            grants += [(f"oidc~user-{user}", None, f"table:{table[0]}") for table in own]
            roles = chance.sample(range(ROLES), ROLES_EACH)
            members += [(role_ids[role], f"oidc~user-{user}", None) for role in roles]
            if user < CALLERS:
                reached = [chance.choice(of_role[role]) for role in roles for _ in range(LOADS_EACH // ROLES_EACH)]
                loads += [(user, path, name) for _, path, name in (*own, *reached)][:LOADS_EACH]
        _write(database, role_ids, members, dict.fromkeys(grants))
    chance.shuffle(loads)
    return loads


def _write(database: psycopg.Connection[Any], role_ids: list[Any], members: list[Any], grants: dict[Any, None]) -> None:
    project, parent = "00000000-0000-0000-0000-000000000000", "project:00000000-0000-0000-0000-000000000000"
    (path,) = database.execute("SELECT path FROM tenancy_securable WHERE id = %s", [parent]).fetchone() or ("",)
    with database.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO tenancy_user (id, name, name_key, email, user_type, last_updated_with, is_active, password,"
            " created_at, updated_at) VALUES (%s, %s, '', '', 'human', 'create-endpoint', true, '!', now(), now())",
            [(f"oidc~user-{number}", f"User {number}") for number in range(USERS)],
        )
        cursor.executemany(
            "INSERT INTO tenancy_role (id, project_id, name, name_key, provider_id, source_id, created_at)"
            " VALUES (%s, %s, %s, %s, 'lakekeeper', %s, now())",
            [(role_id, project, str(role_id), str(role_id), str(role_id)) for role_id in role_ids],
        )
        cursor.executemany(
            "INSERT INTO tenancy_securable (id, type, object_id, parent_id, path) VALUES (%s, 'role', %s, %s, %s)",
            [(f"role:{each}", str(each), parent, f"{path}role:{each}/") for each in role_ids],
        )
        cursor.executemany(
            "INSERT INTO tenancy_rolemember (id, role_id, user_id, member_role_id, created_at)"
            " VALUES (gen_random_uuid(), %s, %s, %s, now())",
            members,
        )
        cursor.executemany(
            "INSERT INTO tenancy_grant (id, securable_id, path, user_id, role_id, privilege, created_at)"
            " SELECT gen_random_uuid(), id, path, %s, %s, 'select', now() FROM tenancy_securable WHERE id = %s",
            list(grants),
        )
        cursor.execute(
            "INSERT INTO tenancy_grant (id, securable_id, path, user_id, role_id, privilege, created_at)"
            " SELECT gen_random_uuid(), s.id, s.path, 'oidc~user-0', NULL, 'describe', now()"
            "   FROM catalog_namespace n JOIN tenancy_securable s ON s.id = 'namespace:' || n.id"
            "  WHERE n.path = 'authorized_0'"
        )
        cursor.execute(
            "INSERT INTO tenancy_grant (id, securable_id, path, user_id, role_id, privilege, created_at)"
            " SELECT gen_random_uuid(), s.id, s.path, 'oidc~user-1', NULL, 'modify', now() FROM catalog_tabular t"
            "   JOIN catalog_namespace n ON n.id = t.namespace_id JOIN tenancy_securable s ON s.id = 'table:' || t.id"
            "  WHERE n.path = 'authorized_1'"
        )
    database.execute("ANALYZE")


@contextmanager
def servers_with_authorization(
    home: Path, database_url: str, storage: dict[str, str], *, workers: int, threads: int
) -> Iterator[tuple[dict[str, CatalogServer], IdentityProvider]]:
    """A server for each backend, on one database, and the identity provider of both."""
    provider = IdentityProvider(RSAKey.generate_key(2048)).start()
    address = {"LAKEKEEPER__OPENID_PROVIDER_URI": provider.address, "LAKEKEEPER__OPENID_AUDIENCE": "icekeeper"}
    servers: dict[str, CatalogServer] = {}
    try:
        for backend in BACKENDS:
            (home / backend).mkdir(parents=True)
            chosen = {**address, **storage, "LAKEKEEPER__AUTHZ_BACKEND": backend}
            servers[backend] = CatalogServer(
                home / backend,
                database_url=database_url,
                workers=workers,
                threads=threads,
                arguments=["--without-worker"],
                settings=chosen,
            ).start()
        yield servers, provider
    finally:
        for server in servers.values():
            server.stop()
        provider.stop()


def reads(catalog: Contents, provider: IdentityProvider, loads: list[tuple[int, str, str]]) -> list[AuthorizedReads]:
    tokens = {user: provider.token(sub=f"user-{user}", exp=2**32) for user in range(CALLERS)}

    def asked(user: int, target: str) -> bytes:
        return request("GET", f"{catalog.prefix}/namespaces/{target}", Authorization=f"Bearer {tokens[user]}")

    return [
        AuthorizedReads(
            "rights-load",
            f"loadTable, {len(loads)} of them",
            [asked(user, f"{path}/tables/{name}") for user, path, name in loads],
        ),
        AuthorizedReads("rights-same", "loadTable, one table", [asked(1, "authorized_1/tables/table_001")]),
        AuthorizedReads("rights-list", f"list {TABLES_EACH} tables, all seen", [asked(0, "authorized_0/tables")]),
        AuthorizedReads(
            "rights-few",
            f"list {TABLES_EACH} tables, those of {CALLERS} callers",
            [asked(user, f"authorized_{2 + user % 8}/tables") for user in range(2, CALLERS)],
        ),
        AuthorizedReads(
            "rights-part", f"list {TABLES_EACH} tables, seen one by one", [asked(1, "authorized_1/tables")]
        ),
    ]
