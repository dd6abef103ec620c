"""Environments of Lakekeeper's Helm chart and compose files: the server starts, or rejects them as documented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import requests
from django.conf import settings

from icekeeper.conf.database import databases
from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.kernel.errors.types import CatalogError
from storage.secrets.stores import require_readable_secrets
from tenancy.actor import INTERNAL
from tenancy.authz import port
from tenancy.models import Server
from tenancy.services.server import bootstrap
from tenancy.services.startup_checks import require_chosen_backend, require_terms_accepted
from tests.harness.run_environment import RunEnvironment
from tests.harness.wsgi_client import ApiClient
from tests.management.test_openapi_comparison import rows, section
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.both_databases

START_CHECKS = (require_terms_accepted, require_chosen_backend, require_readable_secrets)
"""Those of `STARTUP_JOBS` that decide by the settings and the database alone."""

Environment = dict[str, str]


def variables(prefix: str = "LAKEKEEPER__", **values: str) -> Environment:
    return {prefix + name: text for name, text in values.items()}


# --- the Helm chart: release `lk`, namespace `ns` ------------------------------------------------------------------

CHART = variables(
    SECRET_BACKEND="Postgres",
    AUTHZ_BACKEND="allowall",
    PG_HOST_W="lk-lakekeeper-pg",
    PG_PORT="5432",
    PG_DATABASE="lakekeeper",
    PG_USER="lakekeeper",
    PG_PASSWORD="password",
    PG_ENCRYPTION_KEY="Zk3v9QmT7yBx1LwRa5NsHd8UcPe2GfJo4KiM6XqA",
    PLACEHOLDER="placeholder",
)
CHART_OPENFGA = variables(AUTHZ_BACKEND="openfga", OPENFGA__ENDPOINT="http://lk-openfga.ns.svc.cluster.local.:8081")
CHART_OIDC = variables(
    OPENID_PROVIDER_URI="https://idp.example.com/realms/lake",
    OPENID_AUDIENCE="lakekeeper",
    OPENID_ADDITIONAL_ISSUERS="https://a.example.com,https://b.example.com",
)
CHART_UI = variables(UI__OPENID_CLIENT_ID="ui", UI__OPENID_SCOPE="openid", UI__OPENID_RESOURCE="lake")
CHART_KUBERNETES = variables(
    ENABLE_KUBERNETES_AUTHENTICATION="true",
    KUBERNETES_AUTHENTICATION_AUDIENCE="https://kubernetes.default.svc",
    KUBERNETES_AUTHENTICATION_ACCEPT_LEGACY_SERVICEACCOUNT="true",
)
WITHOUT_SECRET_BACKEND = {
    name: text for name, text in CHART.items() if not name.endswith(("SECRET_BACKEND", "PG_ENCRYPTION_KEY"))
}
CHART_KV2 = WITHOUT_SECRET_BACKEND | variables(
    KV2__URL="https://vault.example.com:8200",
    KV2__USER="lakekeeper",
    KV2__PASSWORD="password",
    KV2__SECRET_MOUNT="<nil>",
)
EXTERNAL_DATABASE = variables(
    PG_HOST_R="reader.example.com", PG_HOST_W="writer.example.com", PG_PORT="5432", PG_DATABASE="catalog",
    PG_USER="catalog", PG_PASSWORD="", PG_SSL_MODE="VerifyFull",
)  # fmt: skip

# --- compose files ---------------------------------------------------------------------------------------------------

POSTGRES = variables(
    PG_ENCRYPTION_KEY="This-is-NOT-Secure!",
    PG_DATABASE_URL_READ="postgresql://postgres:postgres@db:5432/postgres",
    PG_DATABASE_URL_WRITE="postgresql://postgres:postgres@db:5432/postgres",
) | {"RUST_LOG": "info"}
OPENFGA = variables(AUTHZ_BACKEND="openfga", OPENFGA__ENDPOINT="http://openfga:8081")
KEYCLOAK = variables(
    OPENID_PROVIDER_URI="http://keycloak:8080/realms/iceberg",
    OPENID_ADDITIONAL_ISSUERS="http://localhost:30080/realms/iceberg",
    OPENID_AUDIENCE="lakekeeper",
    UI__OPENID_CLIENT_ID="lakekeeper",
    UI__OPENID_PROVIDER_URI="http://localhost:30080/realms/iceberg",
)
CLIENT = variables(
    OPENFGA__CLIENT_ID="openfga",
    OPENFGA__CLIENT_SECRET="xqE1vUrifVDKAZdLuz6JAnDxMYLdGu5z",
    OPENFGA__TOKEN_ENDPOINT="http://keycloak:8080/realms/iceberg/protocol/openid-connect/token",
)
DEBUG = variables(DEBUG__LOG_REQUEST_BODIES="true")
COMPOSE = POSTGRES | variables(AUTHZ_BACKEND="allowall")
HANDED_THROUGH = variables(
    OPENID_PROVIDER_URI="", OPENID_AUDIENCE="", OPENID_ADDITIONAL_ISSUERS="", UI__OPENID_CLIENT_ID="",
    UI__OPENID_SCOPE="",
)  # fmt: skip
BUILT = variables(ALLOW_ORIGIN='"*"')
ADVANCED = variables(
    OPENFGA__MAX_BATCH_CHECK_SIZE="200",
    TRUSTED_ENGINES__TRINO__TYPE="trino",
    TRUSTED_ENGINES__TRINO__OWNER_PROPERTY="trino.run-as-owner",
    TRUSTED_ENGINES__TRINO__IDENTITIES__OIDC__SUBJECTS='["94eb1d88-7854-43a0-b517-a75f92c533a5"]',
)
OLD = "ICEBERG_REST__"
THEIR_TESTS = (
    variables(
        OLD,
        PG_ENCRYPTION_KEY="abc",
        PG_DATABASE_URL_READ="postgresql://postgres:postgres@db:5432/postgres",
        PG_DATABASE_URL_WRITE="postgresql://postgres:postgres@db:5432/postgres",
        OPENID_PROVIDER_URI="http://keycloak:8080/realms/iceberg",
    )
    | DEBUG
    | variables(TASK_POLL_INTERVAL='"1"')
)
THEIR_EVENTS = variables(
    OLD,
    NATS_ADDRESS="nats://nats:4222",
    NATS_TOPIC="iceberg",
    NATS_USER="test",
    NATS_PASSWORD="test",
    KAFKA_TOPIC="iceberg",
    KAFKA_CONFIG='{"bootstrap.servers"="kafka:9092"}',
    LOG_CLOUDEVENTS="true",
)


@dataclass(frozen=True)
class Accepted:
    """The authorization backend, and the variables (without prefix) that the server reports as without effect."""

    backend: str = "allowall"
    unread: frozenset[str] = frozenset()


def accepted(backend: str, *unread: str) -> Accepted:
    return Accepted(backend, frozenset(unread))


LOGGED = "DEBUG__LOG_REQUEST_BODIES"
UNUSED = "PLACEHOLDER"

ACCEPTED = {
    # Checks and values of the chart.
    "chart": (CHART, accepted("allowall", UNUSED)),
    "chart ci: lakekeeper-plus.yaml": (
        CHART | variables(LICENSE__KEY="a key"),
        accepted("allowall", UNUSED, "LICENSE__KEY"),
    ),
    "chart: external database": (CHART | EXTERNAL_DATABASE, accepted("allowall", UNUSED)),
    "chart: an empty URL with a host": (
        CHART | variables(PG_DATABASE_URL_WRITE="", PG_DATABASE_URL_READ=""),
        accepted("allowall", UNUSED),
    ),
    "compose: an empty host with a URL": (
        POSTGRES | variables(PG_HOST_W="", PG_HOST_R="", PG_USER="", PG_PASSWORD=""),
        accepted("allowall"),
    ),
    "chart: OIDC and UI": (
        CHART | CHART_OIDC | CHART_UI,
        accepted("allowall", UNUSED),
    ),
    "chart: Kubernetes": (CHART | CHART_KUBERNETES, accepted("allowall", UNUSED)),
    "chart: OpenFGA": (CHART | CHART_OIDC | CHART_OPENFGA, accepted("openfga", UNUSED)),
    "chart: OpenFGA with a key and a client": (
        CHART | CHART_OIDC | CHART_OPENFGA | CLIENT | variables(OPENFGA__API_KEY="key"),
        accepted("openfga", UNUSED),
    ),
    "chart: other spelling": (
        CHART | CHART_OIDC | CHART_OPENFGA | variables(AUTHZ_BACKEND="OpenFGA"),
        accepted("openfga", UNUSED),
    ),
    "chart: AllowAll": (CHART | variables(AUTHZ_BACKEND="AllowAll"), accepted("allowall", UNUSED)),
    "chart: allow-all": (CHART | variables(AUTHZ_BACKEND="allow-all"), accepted("allowall", UNUSED)),
    "chart: kv2 without address": (
        CHART_KV2 | variables(KV2__URL="", KV2__SECRET_MOUNT="kv"),
        accepted("allowall", UNUSED),
    ),
    "chart: kv2 with what it lacks": (
        CHART_KV2 | variables(KV2__SECRET_MOUNT="kv", SECRET_BACKEND="KV2"),
        accepted("allowall", UNUSED),
    ),
    # Compose files and manifests.
    "examples/minimal": (POSTGRES | DEBUG, accepted("allowall", LOGGED)),
    "examples/fluss": (POSTGRES, accepted("allowall")),
    "examples/kafka-connect-iceberg-sink": (POSTGRES, accepted("allowall")),
    "examples/access-control-simple": (
        POSTGRES | OPENFGA | CLIENT | KEYCLOAK | DEBUG,
        accepted("openfga", LOGGED),
    ),
    "examples/access-control-advanced": (
        POSTGRES | OPENFGA | KEYCLOAK | DEBUG | ADVANCED,
        accepted("openfga", LOGGED),
    ),
    "examples/agentic-medallion": (POSTGRES | OPENFGA | KEYCLOAK, accepted("openfga")),
    "docker-compose.yaml": (COMPOSE | HANDED_THROUGH, accepted("allowall")),
    "docker-compose.yaml, Keycloak": (COMPOSE | KEYCLOAK, accepted("allowall")),
    "docker-compose.yaml, Keycloak and OpenFGA": (COMPOSE | KEYCLOAK | OPENFGA, accepted("openfga")),
    "docker-compose-build.yaml": (COMPOSE | BUILT | DEBUG, accepted("allowall", LOGGED)),
    "tests/docker-compose.yaml": (THEIR_TESTS | THEIR_EVENTS, accepted("builtin", LOGGED)),
}
"""By where it comes from: the environment, and what comes of it."""

NO_AUTHENTICATION = "`AUTHZ_BACKEND=openfga` without authentication"
PLUS = "`AUTHZ_BACKEND=cedar`, `CEDAR__*`, `ADMISSION_ENFORCE__*`"
NO_MOUNT = "`KV2__SECRET_MOUNT=<nil>`, which the chart writes for `secretBackend.type: kv2`"
NO_STORE = "`KV2__URL` with neither `SECRET_BACKEND` nor `PG_ENCRYPTION_KEY`"
HALF_EVENTS = (
    "Half of a configuration of events: `NATS_ADDRESS` without `NATS_TOPIC`, `NATS_USER` without `NATS_PASSWORD`, "
    "`KAFKA_CONFIG` without `KAFKA_TOPIC`, or the reverse"
)
WEAK_ACKS = "`KAFKA_CONFIG` with another value of `acks` than `all`"
UNKNOWN = (
    "A variable below `OPENID_`, `OPENFGA__`, `TRUSTED_ENGINES__`, `KV2__`, `NATS_`, `KAFKA_` that this version "
    "does not know"
)

EMPTY_DATABASE = "`PG_DATABASE_URL_WRITE` or `PG_HOST_W` is empty, and neither has a value"
NO_WRITE_DATABASE = (
    "`PG_DATABASE_URL_READ`, `PG_HOST_R`, `PG_PORT`, `PG_USER`, `PG_PASSWORD`, `PG_DATABASE`, `PG_SCHEMA`, "
    "`PG_SSL_MODE` or `PG_SSL_ROOT_CERT` without `PG_DATABASE_URL_WRITE` and `PG_HOST_W`"
)
HALF_DATABASE = (
    "`PG_HOST_W` without `PG_DATABASE`; `PG_DATABASE_URL_READ` without `PG_DATABASE_URL_WRITE`; `PG_HOST_R` without "
    "`PG_HOST_W`"
)
NO_PROVIDER = (
    "`OPENID_AUDIENCE`, `OPENID_ADDITIONAL_ISSUERS`, `OPENID_SCOPE`, `OPENID_ROLES_CLAIM` or "
    "`OPENID_DISPLAY_NAME_TEMPLATE` while `OPENID_PROVIDER_URI` is empty or unset"
)
NO_ENDPOINT = "`AUTHZ_BACKEND=openfga` without `OPENFGA__ENDPOINT`"
HALF_CLIENT = "One or two of `OPENFGA__CLIENT_ID`, `OPENFGA__CLIENT_SECRET` and `OPENFGA__TOKEN_ENDPOINT`"
NO_CLIENT = "`OPENFGA__SCOPE` without `OPENFGA__CLIENT_ID`"
NO_VAULT = "`SECRET_BACKEND=kv2` without `KV2__URL`, `KV2__SECRET_MOUNT`, `KV2__USER` or `KV2__PASSWORD`"
BAD_ORIGIN = "`ALLOW_ORIGIN` with an entry that no browser sends: a path, a wildcard in a host, no scheme"
BLANK = "A setting that is no secret, of blanks alone"
SQLITE = "unset it to use the embedded SQLite"
VAULT = CHART | variables(
    SECRET_BACKEND="kv2", KV2__URL="https://vault:8200", KV2__SECRET_MOUNT="kv", KV2__USER="u", KV2__PASSWORD="password"
)

REFUSED = {
    "chart: empty host": (CHART | variables(PG_HOST_W=""), EMPTY_DATABASE, SQLITE),
    "chart: empty host, host for reads": (CHART | variables(PG_HOST_W="", PG_HOST_R="r"), EMPTY_DATABASE, SQLITE),
    "compose: empty URL": (POSTGRES | variables(PG_DATABASE_URL_WRITE=""), EMPTY_DATABASE, SQLITE),
    "compose: empty URLs": (
        POSTGRES | variables(PG_DATABASE_URL_WRITE="", PG_DATABASE_URL_READ=""), EMPTY_DATABASE, SQLITE,
    ),
    "chart: no host": (
        {name: text for name, text in CHART.items() if not name.endswith("PG_HOST_W")}, NO_WRITE_DATABASE,
        "set one of these two to use PostgreSQL, or unset LAKEKEEPER__PG_PORT",
    ),
    "compose: URL for reads alone": (
        {name: text for name, text in POSTGRES.items() if not name.endswith("_WRITE")}, NO_WRITE_DATABASE,
        "unset LAKEKEEPER__PG_DATABASE_URL_READ to use the embedded SQLite",
    ),
    "chart: no database": (
        CHART | variables(PG_DATABASE=""), HALF_DATABASE, "LAKEKEEPER__PG_HOST_W needs LAKEKEEPER__PG_DATABASE",
    ),
    "chart: URL for reads with a host": (
        CHART | variables(PG_DATABASE_URL_READ="postgresql://u@r/d"), HALF_DATABASE,
        "LAKEKEEPER__PG_DATABASE_URL_READ needs LAKEKEEPER__PG_DATABASE_URL_WRITE",
    ),
    "compose: host for reads with a URL": (
        POSTGRES | variables(PG_HOST_R="r", PG_DATABASE_URL_READ=""), HALF_DATABASE,
        "LAKEKEEPER__PG_HOST_R needs LAKEKEEPER__PG_HOST_W",
    ),
    **{
        f"chart: {name} with an empty provider": (
            CHART | variables("LAKEKEEPER__OPENID_", PROVIDER_URI="", **{name: "{x}"}), NO_PROVIDER,
            f"set LAKEKEEPER__OPENID_PROVIDER_URI, or unset LAKEKEEPER__OPENID_{name}",
        )
        for name in ("AUDIENCE", "ADDITIONAL_ISSUERS", "SCOPE", "ROLES_CLAIM", "DISPLAY_NAME_TEMPLATE")
    },
    "chart: OpenFGA without endpoint": (
        CHART | CHART_OIDC | variables(AUTHZ_BACKEND="openfga", OPENFGA__ENDPOINT=""), NO_ENDPOINT,
        "needs LAKEKEEPER__OPENFGA__ENDPOINT",
    ),
    "chart: OpenFGA client without token endpoint": (
        CHART | CHART_OIDC | CHART_OPENFGA | CLIENT | variables(OPENFGA__TOKEN_ENDPOINT=""), HALF_CLIENT,
        "LAKEKEEPER__OPENFGA__TOKEN_ENDPOINT: set all or none",
    ),
    "chart: OpenFGA scope without client": (
        CHART | CHART_OIDC | CHART_OPENFGA | variables(OPENFGA__SCOPE="fga"), NO_CLIENT,
        "LAKEKEEPER__OPENFGA__SCOPE needs LAKEKEEPER__OPENFGA__CLIENT_ID",
    ),
    **{
        f"chart: kv2 without {name}": (
            VAULT | variables("LAKEKEEPER__KV2__", **{name: ""}), NO_VAULT, f"needs LAKEKEEPER__KV2__{name}",
        )
        for name in ("URL", "SECRET_MOUNT", "USER", "PASSWORD")
    },
    "chart ci: authorization.yaml, opa.yaml": (
        CHART | CHART_OPENFGA, NO_AUTHENTICATION, "Set LAKEKEEPER__OPENID_PROVIDER_URI",
    ),
    "docker-compose.yaml, OpenFGA": (
        COMPOSE | OPENFGA, NO_AUTHENTICATION, "Set LAKEKEEPER__OPENID_PROVIDER_URI",
    ),
    "chart: cedar": (CHART | variables(AUTHZ_BACKEND="cedar"), PLUS, "one of allowall, builtin, openfga"),
    "chart: kv2": (CHART_KV2, NO_MOUNT, "set the variable in catalog.extraEnv"),
    "chart: kv2 with a mount": (
        CHART_KV2 | variables(KV2__SECRET_MOUNT="kv"), NO_STORE, "set LAKEKEEPER__SECRET_BACKEND=kv2",
    ),
    "chart: an origin with a wildcard": (
        CHART | variables(ALLOW_ORIGIN="https://*.example.com"), BAD_ORIGIN, "origins such as https://app.example.com",
    ),
    "chart: a blank audience": (CHART | CHART_OIDC | variables(OPENID_AUDIENCE=" "), BLANK, "text that is not blank"),
    **{
        f"tests/docker-compose.yaml without {name}": (
            THEIR_TESTS | THEIR_EVENTS | variables(OLD, **{name: ""}), HALF_EVENTS, cure,
        )
        for name, cure in {
            "NATS_ADDRESS": "set LAKEKEEPER__NATS_ADDRESS, or unset LAKEKEEPER__NATS_TOPIC",
            "NATS_TOPIC": "set LAKEKEEPER__NATS_TOPIC, or unset LAKEKEEPER__NATS_ADDRESS",
            "NATS_USER": "LAKEKEEPER__NATS_PASSWORD: set both or none",
            "NATS_PASSWORD": "LAKEKEEPER__NATS_PASSWORD: set both or none",
            "KAFKA_TOPIC": "set LAKEKEEPER__KAFKA_TOPIC, or unset LAKEKEEPER__KAFKA_CONFIG",
            "KAFKA_CONFIG": "set LAKEKEEPER__KAFKA_CONFIG, or unset LAKEKEEPER__KAFKA_TOPIC",
        }.items()
    },
    "tests/docker-compose.yaml with acks=1": (
        THEIR_TESTS | THEIR_EVENTS | variables(OLD, KAFKA_CONFIG='{"bootstrap.servers"="k","acks"="1"}'), WEAK_ACKS,
        "acks must be all",
    ),
    "a newer setting of events": (
        CHART | variables(NATS_NEWER_CHECK="x"), UNKNOWN, "no setting of events has this name. Correct its name",
    ),
    "a newer setting": (
        CHART | variables(OPENID_NEWER_CHECK="x"), UNKNOWN, "it would protect nothing. Correct its name",
    ),
}  # fmt: skip
"""By where it comes from: the environment, the row of docs/compatibility.md, and the cure that the message names."""


@pytest.fixture(autouse=True)
def fresh_authorizer() -> Any:
    port.authorizer.cache_clear()
    yield
    port.authorizer.cache_clear()


def begin(monkeypatch: pytest.MonkeyPatch, environment: Environment) -> list[str]:
    """Start as a server does before it serves, and return the variables without effect."""
    own, unread = read_settings(environment)
    created = databases(own)
    assert {each["ENGINE"] for each in created.values()} == {"django.db.backends.postgresql"}
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    for check in START_CHECKS:
        check()
    return unread


@pytest.mark.django_db
@pytest.mark.parametrize("name", ACCEPTED)
def test_an_environment_of_lakekeeper_starts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, expected = ACCEPTED[name]
    for is_bootstrapped in (False, True):  # a new server starts, is bootstrapped over the API, and starts again
        unread = begin(monkeypatch, environment)
        assert {variable.partition("__")[2] for variable in unread} == expected.unread
        assert port.authorizer().name == expected.backend
        assert Server.objects.get().authz_backend == expected.backend
        if not is_bootstrapped:
            bootstrap(actor=INTERNAL, accept_terms_of_use=True)


@pytest.mark.django_db
@pytest.mark.parametrize("name", REFUSED)
def test_an_environment_that_is_refused_is_documented_with_its_cure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, row, cure = REFUSED[name]
    with pytest.raises((SettingsError, CatalogError)) as refused:
        begin(monkeypatch, environment)
    assert cure in str(refused.value)
    assert row in {cells[0] for cells in rows(section("Settings"))}
    assert Server.objects.get().authz_backend is None


def test_every_documented_error_is_tested() -> None:
    errors = section("Settings").partition("Further differences")[0]
    assert {cells[0] for cells in rows(errors)} == {row for _, row, _ in REFUSED.values()}


@pytest.mark.django_db
def test_a_bootstrap_with_a_token_is_served_where_authentication_is_off() -> None:
    """The test pod of the chart sends the token of its service account and expects 204."""
    api = ApiClient("/management/v1")
    body = {"accept-terms-of-use": True}
    response = api.post("/bootstrap", body, authorization="Bearer eyJhbGciOiJSUzI1NiJ9.e30.AAAA")
    assert (response.status, response.body) == (204, b"")
    assert api.post("/bootstrap", body, authorization="Bearer x").refused(400, "CatalogAlreadyBootstrapped")


def test_a_real_server_starts_as_the_chart_starts_it(
    run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = {name for name in CHART if name.startswith("LAKEKEEPER__PG_") and not name.endswith("ENCRYPTION_KEY")}
    chart = {name: text for name, text in CHART.items() if name not in database}
    server = CatalogServer(
        tmp_path_factory.mktemp("chart"),
        database_url=run_environment.own_database("chart"),
        settings=chart | BUILT | HANDED_THROUGH | variables(TASK_POLL_INTERVAL='"1"'),
    )
    server.migrate()
    try:
        server.start()
        response = requests.post(
            f"{server.base_url}/management/v1/bootstrap",
            json={"accept-terms-of-use": True}, headers={"Authorization": "Bearer of-a-pod"}, timeout=30,
        )  # fmt: skip
        assert response.status_code == 204, response.text
        page = requests.get(server.base_url, headers={"Origin": "https://any.example.com"}, timeout=30)
        assert page.url == f"{server.base_url}/ui/sign-in/"
        config = requests.get(f"{server.base_url}/management/v1/info", headers={"Origin": "https://a.b"}, timeout=30)
        assert config.headers["Access-Control-Allow-Origin"] == "*"
    finally:
        server.stop()
