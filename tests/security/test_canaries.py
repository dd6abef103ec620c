"""Secrets never appear in a response, a log line of any level, a row, a file, an error or the repr of an object."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import pickle
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import requests
from django.conf import settings
from django.core.management import call_command

from icekeeper.conf.environment import read_settings
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.logs import JsonFormatter
from storage.credentials import KINDS, Credential, read_credential
from storage.documents import read_document
from storage.identity.keys import Keys
from storage.identity.s3 import assume_role, base_keys
from storage.io.stores import store_for
from storage.models import Secret, Warehouse
from storage.profiles.kinds import TYPES
from storage.secrets.stores import secret_store, stored_credential
from storage.secrets.vault import access_of_settings
from tests.harness.routes import ROUTES
from tests.harness.run_environment import RunEnvironment
from tests.harness.wsgi_client import ApiClient, call
from tests.management.test_warehouse_storage import PROFILES, rows
from tests.management.warehouse_request_fixtures import use_settings
from tests.parts.minio import Minio
from tests.parts.server import CatalogServer
from tests.security.canary_fixtures import CANARY, CANARY_HOST, forms, leaks, planted
from tests.storage.test_credentials import ALL

api = ApiClient("/management/v1")
SECRET_SETTINGS = {
    "LAKEKEEPER__PG_ENCRYPTION_KEY": f"key-{CANARY}",
    "ICEKEEPER__PG_ENCRYPTION_OLD_KEYS": f'["old-{CANARY}", "older-{CANARY}"]',
    "LAKEKEEPER__KV2__URL": "http://127.0.0.1:1",
    "LAKEKEEPER__KV2__USER": "icekeeper",
    "LAKEKEEPER__KV2__PASSWORD": f"password-{CANARY}",
    "LAKEKEEPER__KV2__SECRET_MOUNT": "lake",
    "ICEKEEPER__VAULT__SECRET_ID": f"secret-id-{CANARY}",
    "ICEKEEPER__VAULT__RETRIES": "0",
}
SYSTEM_IDENTITIES = {
    "LAKEKEEPER__ENABLE_AWS_SYSTEM_CREDENTIALS": "true",
    "LAKEKEEPER__ENABLE_AZURE_SYSTEM_CREDENTIALS": "true",
    "LAKEKEEPER__ENABLE_GCP_SYSTEM_CREDENTIALS": "true",
    "ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS": "127.0.0.1,*.com,*.net,*.cloud",
}
STORES = PROFILES | {"s3": PROFILES["s3"] | {"endpoint": "http://127.0.0.1:1/", "flavor": "s3-compat"}}


def kind_of(credential: dict[str, Any]) -> str:
    return f"{credential['type']}-{credential['credential-type']}-{len(credential)}"


@pytest.mark.parametrize(
    "form",
    [
        CANARY, f"x{CANARY}y", CANARY.upper(), CANARY.encode().hex(), CANARY.encode().hex().upper(),
        "cAn4ry%2B7f%2F3a9%3Dc5", "cAn4ry%2b7f/3a9%3dc5", f"https://{CANARY_HOST}/", json.dumps(CANARY),
        CANARY.replace("/", "\\/"),
        *(base64.b64encode(f"{'x' * n}{CANARY}{'y' * m}".encode()).decode() for n in range(4) for m in range(4)),
        *(base64.urlsafe_b64encode(f"{'x' * n}{CANARY}".encode()).decode() for n in range(4)),
    ],
)  # fmt: skip
def test_a_canary_is_recognised_in_every_form(form: str) -> None:
    assert leaks(f"before {form} after".encode())
    assert not leaks(b"before and after")


def test_every_kind_of_credential_is_planted() -> None:
    assert {type(read_credential(planted(each))) for each in ALL} == set(KINDS)
    for each in ALL:
        hidden = set(each) - {"type", "credential-type"}
        assert bool(hidden) == bool(leaks(json.dumps(planted(each)).encode()))


class Everything(logging.Handler):
    """A handler that records every log line as the server would write it, with the attributes of the record."""

    def __init__(self) -> None:
        super().__init__(level=logging.NOTSET)
        self.setFormatter(JsonFormatter())
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self.format(record) + repr(record.args) + repr(vars(record)))


@contextlib.contextmanager
def at_debug() -> Iterator[Everything]:
    """Log as with ICEKEEPER__LOG_LEVEL=debug; loggers that the settings limit stay limited."""
    kept, root = Everything(), logging.getLogger()
    level, own = root.level, logging.getLogger("django.db.backends")
    own_level = own.level
    root.addHandler(kept)
    for logger in (root, own):
        logger.setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        root.removeHandler(kept)
        root.setLevel(level)
        own.setLevel(own_level)


def choose(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    own, _ = read_settings(variables)
    use_settings(monkeypatch, **{name: getattr(own, name) for name in own.model_fields_set})


FIRST_OF_A_STORE: Final = list({each["type"]: each for each in reversed(ALL)}.values())
"""With these credentials every route is called, with the others those of warehouses."""
OF_WAREHOUSES: Final = [
    route for route in ROUTES if re.fullmatch(r"/management/v1/warehouse(/<[^>]+>)?(/[a-z-]+)*", str(route))
]


def every_route(given: dict[str, Any], warehouse_id: str, body: dict[str, Any]) -> Iterator[bytes]:
    """The response of each route for this warehouse, to a body full of secrets."""
    routes = ROUTES if given in FIRST_OF_A_STORE else OF_WAREHOUSES
    for methods in (("GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS"), ("DELETE",)):
        for route in routes:
            target = "/" + re.sub(r"<(?:\w+:)?\w+>", warehouse_id, route.pattern)
            for method in methods:
                raw = json.dumps(body).encode() if method in {"POST", "PUT", "PATCH"} else b""
                response = call(method, target, body=raw, content_type="application/json")
                yield response.body + repr(response.headers).encode()


def run(name: str, *options: str) -> bytes:
    reported = io.StringIO()
    try:
        call_command(name, *options, stdout=reported, stderr=reported)
    except Exception as error:  # noqa: BLE001 - whatever it is, it would be written with its stack
        reported.write("".join(traceback.format_exception(error)))
    return reported.getvalue().encode()


def broken(body: dict[str, Any], secret: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Bodies that fail validation at each member in turn, with secrets in all others."""
    for member in secret:
        for wrong in (None, 7, [CANARY], {CANARY: CANARY}, CANARY + "\x00", CANARY * 2000):
            yield body | {"storage-credential": secret | {member: wrong}}
    yield body | {"storage-profile": {"type": CANARY}}
    yield body | {"storage-profile": body["storage-profile"] | {"bucket": 7, "filesystem": 7}}


@pytest.mark.django_db
@pytest.mark.parametrize("given", ALL, ids=kind_of)
def test_no_part_of_a_credential_is_returned_or_logged(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, Any]
) -> None:
    choose(monkeypatch, SECRET_SETTINGS | SYSTEM_IDENTITIES)
    monkeypatch.setattr(settings, "SECRET_KEY", f"signing-{CANARY}-{CANARY}")
    secret = planted(given)
    profile = STORES[given["type"]]
    body = {"warehouse-name": "wh", "storage-profile": profile, "storage-credential": secret}
    out: list[bytes] = []
    with at_debug() as log:
        created = api.post("/warehouse", body)
        assert created.status == 201, created.body
        warehouse_id = created.json()["id"]
        own = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        responses = [
            created, own.get(), api.get("/warehouse"),
            own.post("/storage-credential", {"new-storage-credential": secret}),
            own.post("/storage", {"storage-profile": profile, "storage-credential": secret}),
            *(api.post("/warehouse", each | {"warehouse-name": "other"}) for each in broken(body, secret)),
            *(own.post("/storage", each) for each in broken(body, secret)),
            own.post("/storage-credential", {"new-storage-credential": secret}),
            own.post("/storage-credential", raw=json.dumps({"new-storage-credential": secret}).encode()[:-1]),
        ]  # fmt: skip
        assert [response.status for response in responses[:5]] == [201, 200, 200, 200, 200]
        warehouse = Warehouse.objects.get()
        credential = stored_credential(warehouse.secret_id)
        assert credential is not None
        assert credential.reveal() == secret
        out += texts(warehouse, credential)
        (tmp_path / "profile.json").write_text(json.dumps(profile | {"key-prefix": "other"}))
        (tmp_path / "credential.json").write_text(json.dumps(secret))
        (tmp_path / "declared.yaml").write_text(
            json.dumps({"warehouses": [{**body, "warehouse-name": "declared"}, {**body, "warehouse-name": "wh"}]})
        )
        out += [
            run("show_config", "--json"), run("show_config"), run("check_storage", "wh"),
            run("create_warehouse", "by-command", "--profile", str(tmp_path / "profile.json"),
                "--credential", str(tmp_path / "credential.json"), "--json"),
            run("create_warehouse", "wh", "--profile", str(tmp_path / "profile.json"),
                "--credential", str(tmp_path / "credential.json")),
            run("bootstrap", "--file", str(tmp_path / "declared.yaml"), "--dry-run"),
            run("bootstrap", "--file", str(tmp_path / "declared.yaml")),
            run("rotate_encryption_key"), run("rotate_encryption_key", "--json"), run("check_secrets"),
            *([run("check", "--deploy")] if given in FIRST_OF_A_STORE else []),
        ]  # fmt: skip
        out.append(rows())
        out += every_route(given, warehouse_id, body | {"new-storage-credential": secret})
        Secret.objects.update(ciphertext=b"broken")
        out += [run("check_secrets"), run("rotate_encryption_key"), run("check_secrets", "--json")]
        out += every_route(given, warehouse_id, body | {"new-storage-credential": secret})
    out += [response.body + repr(response.headers).encode() for response in responses]
    out.append(rows())
    assert len(log.written) > (500 if given in FIRST_OF_A_STORE else 300)
    assert not leaks("\n".join(log.written).encode())
    assert [leak for each in out for leak in leaks(each)] == []


def texts(warehouse: Warehouse, credential: Credential) -> Iterator[bytes]:
    """The repr of every object that an administrator may print, and errors that have it in arguments and notes."""
    profile = read_document(TYPES[warehouse.storage_profile["type"]], warehouse.storage_profile, "storage-profile")
    keys: list[Any] = []
    with contextlib.suppress(CatalogError):
        keys.append(base_keys(credential))
    with contextlib.suppress(CatalogError, AssertionError):  # some storage types have no store yet
        keys.append(store_for(warehouse.storage))
    for each in (warehouse, credential, profile, warehouse.storage, secret_store(), access_of_settings(),
                 settings.ICEKEEPER, *keys):  # fmt: skip
        yield f"{each!r} {each} {[each]} { {None: each} }".encode()
        error = ValueError(each)
        error.add_note(f"while looking at {each!r}")
        yield "".join(traceback.format_exception(error)).encode()
        if hasattr(each, "model_dump") and each is not settings.ICEKEEPER:
            yield f"{each.model_dump()} {each.model_dump_json()} {vars(each)}".encode()
    for each in (warehouse, profile, warehouse.storage):
        yield pickle.dumps(each)
    for each in (credential, *[key for key in keys if isinstance(key, Keys)]):
        with pytest.raises(TypeError, match="must not be pickled"):
            pickle.dumps(each)


def test_the_forms_are_not_trivial() -> None:
    assert all(len(form) >= 12 for form in forms().values())


def test_a_token_endpoint_and_its_responses_are_not_logged(minio: Minio, bucket: str) -> None:
    """Log temporary keys and the external ID at DEBUG, for granted and for denied roles."""
    good = {"type": "s3", "credential-type": "access-key", "access-key-id": Minio.user,
            "secret-access-key": Minio.password}  # fmt: skip
    profile: Any = read_document(TYPES["s3"], minio.profile(bucket), "storage-profile")
    with at_debug() as log:
        keys = assume_role(
            profile, read_credential(good | {"external-id": f"external-{CANARY}"}), role_arn=None, session_name="s"
        )
        wrong = good | {"secret-access-key": f"secret-{CANARY}", "external-id": f"external-{CANARY}"}
        with pytest.raises(CatalogError) as refused:
            assume_role(profile, read_credential(wrong), role_arn=None, session_name="s")
    written = "\n".join(log.written)
    assert not leaks(written.encode() + "".join(traceback.format_exception(refused.value)).encode())
    for secret in (Minio.password, keys.secret_access_key, keys.session_token, keys.access_key_id):
        assert secret is not None
        assert secret not in written


def test_a_real_server_at_debug(tmp_path: Path, run_environment: RunEnvironment) -> None:
    """Search the log and every file that the server writes."""
    url = run_environment.own_database(tmp_path.name)
    variables = SECRET_SETTINGS | SYSTEM_IDENTITIES | {
        "LAKEKEEPER__SKIP_STORAGE_VALIDATION": "true", "ICEKEEPER__LOG_LEVEL": "debug",
        "ICEKEEPER__SECRET_KEY": f"signing-{CANARY}-{CANARY}",
    }  # fmt: skip
    (tmp_path / "state").mkdir()
    with CatalogServer(tmp_path, database_url=url, settings=variables) as server:
        out = b""
        for number, given in enumerate(ALL):
            profile = STORES[given["type"]] | ({"key-prefix": f"p{number}"})
            secret = planted(given)
            body = {"warehouse-name": f"wh-{number}", "storage-profile": profile, "storage-credential": secret}
            address = f"{server.base_url}/management/v1/warehouse"
            created = requests.post(address, json=body, timeout=30)
            assert created.status_code == 201, created.text
            own = f"{address}/{created.json()['id']}"
            responses = [
                created,
                requests.get(own, timeout=30),
                requests.post(f"{own}/storage", json=body, timeout=30),
                requests.post(f"{own}/storage-credential", json={"new-storage-credential": secret}, timeout=30),
                requests.post(f"{own}/storage-credential", json={"new-storage-credential": [secret]}, timeout=30),
                requests.get(f"{server.uri}/v1/config?warehouse=wh-{number}", timeout=30),
                requests.post(f"{own}/storage?secret=no", data=json.dumps(body)[:-2], timeout=30),
            ]
            out += b"".join(each.content + repr(each.headers).encode() for each in responses)
        out += server.manage("show_config").encode() + server.manage("rotate_encryption_key").encode()
    assert not leaks(out)
    log = server.log_path.read_bytes()
    assert b'"level":"DEBUG"' in log
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert server.log_path in files
    assert {path.name: leaks(path.read_bytes()) for path in files} == {path.name: [] for path in files}
