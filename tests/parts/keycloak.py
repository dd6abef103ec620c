"""Keycloak for one test run: the published release, prepared for a quick start; its data is deleted at the end.

`keycloak_realm.json` is its realm: users `alice`, `bob`, `ana` and `ben` (client `people`, by password), service
accounts `spark` and `brief` (whose tokens are valid for seconds), `console`, a client for the authorization code flow
with PKCE (with consoles at any port of 127.0.0.1), and `elsewhere`, a client whose tokens have another audience.
Passwords and secrets are `NAME-password` and `NAME-secret`. The scope `catalog` adds the audience `icekeeper`, the
realm's roles as the claim `roles` and the groups as `groups`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import requests

from tasks.spark import java
from tests.parts import maven, process
from tests.parts.folder import PARTS
from tests.parts.java_options import SHORT_RUN
from tests.parts.process import PartError
from tests.parts.relay import Relay

HERE = Path(__file__).parent
POM = HERE / "keycloak.xml"
REALM_FILE = HERE / "keycloak_realm.json"
REALM = "icekeeper"

PASSWORD_POLICY = "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"
"""Of test realms: with it a sign-in computes for 35 ms instead of 140."""

BUILD_OPTIONS = ("--db=dev-mem", "--health-enabled=true", "--features-disabled=admin,account")
"""Build options, which take 10 s and are set at installation: all data in memory; no console for users."""

JAVA_OPTIONS = (
    "-Xmx512m",
    *SHORT_RUN,
    "-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
    "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
)
LINKED = ("lib", "conf", "providers", "themes")
SECONDS_TO_BUILD = 300
SECONDS_TO_START = 240


def version() -> str:
    return re.search(r"<keycloak\.version>(.+)</", POM.read_text()).group(1)  # type: ignore[union-attr]


def find_home() -> Path | None:
    """Return the folder of the prepared server, or None."""
    home = _home()
    return home if home.is_dir() else None


def install() -> Path:
    """Download and prepare Keycloak if needed and return the folder of `find_home`; raise `PartError` on failure."""
    home = _home()
    if home.is_dir():
        return home
    PARTS.mkdir(exist_ok=True)
    fetched, unfinished = PARTS / "keycloak.fetched", PARTS / "keycloak.unfinished"
    for folder in (fetched, unfinished):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        maven.gather(POM, fetched)
        with zipfile.ZipFile(fetched / f"keycloak-quarkus-dist-{version()}.zip") as packed:
            packed.extractall(unfinished)
        unpacked = unfinished / f"keycloak-{version()}"
        _build(unpacked)
        unpacked.rename(home)
    finally:
        for folder in (fetched, unfinished):
            shutil.rmtree(folder, ignore_errors=True)
    return home


def _home() -> Path:
    created_of = POM.read_bytes() + "\n".join(BUILD_OPTIONS).encode()
    return PARTS / f"keycloak-{version()}-{hashlib.sha256(created_of).hexdigest()[:8]}"


def _build(home: Path) -> None:
    try:
        done = subprocess.run(
            [*_command(home), "build", *BUILD_OPTIONS],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS_TO_BUILD,
            cwd=home, env=_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise PartError(f"Keycloak was not prepared after {SECONDS_TO_BUILD} s") from error
    if done.returncode:
        raise PartError(f"Keycloak could not be prepared:\n{(done.stdout + done.stderr)[-3000:]}")


def _command(home: Path) -> list[str | Path]:
    """Return the command that `bin/kc.sh` would run, without its shell."""
    try:
        program = java.find_java_home() / "bin" / "java"
    except java.JavaNotFoundError as error:
        raise PartError(f"Keycloak needs a Java: {error}") from error
    entry = ("-cp", home / "lib" / "quarkus-run.jar", "io.quarkus.bootstrap.runner.QuarkusEntryPoint")
    return [program, *JAVA_OPTIONS, f"-Dkc.home.dir={home}", *entry]


def _environment() -> dict[str, str]:
    """Pass no KC_* variable of the caller."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("KC_", "KEYCLOAK_"))}


class Keycloak:
    """One server with its folder at `home`, on 127.0.0.1, with the realm `icekeeper`.

    A context manager. Clients connect through `relay`, which can refuse connections or stop responding; the relay's
    address is the hostname that Keycloak is configured with.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log_path = home / "keycloak.log"
        self._port, self._management_port = process.free_port(), process.free_port()
        self.relay = Relay(self._port)
        self._password = "admin-password"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}"

    def issuer(self, realm: str = REALM) -> str:
        return f"{self.base_url}/realms/{realm}"

    def token_endpoint(self, realm: str = REALM) -> str:
        return f"{self.issuer(realm)}/protocol/openid-connect/token"

    def __enter__(self) -> Self:
        prepared = find_home()
        if prepared is None:
            raise PartError("Keycloak is missing: run `make parts`")
        self.home.mkdir(parents=True, exist_ok=True)
        for name in LINKED:
            (self.home / name).symlink_to(prepared / name)
        account = {"KC_BOOTSTRAP_ADMIN_USERNAME": "admin", "KC_BOOTSTRAP_ADMIN_PASSWORD": self._password}
        self.relay.__enter__()
        self._process = process.start(
            [*_command(self.home), "start", "--optimized", "--cache=local", "--http-enabled=true",
             "--hostname-strict=false", "--http-host=127.0.0.1", f"--http-port={self._port}",
             f"--http-management-port={self._management_port}"],
            log=self.log_path, env=_environment() | account, cwd=self.home,
        )  # fmt: skip
        try:
            process.wait_until_ready(self._is_ready, self._process, log=self.log_path, seconds=SECONDS_TO_START)
            self.create_realm()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process: its data need not be kept."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None
        self.relay.__exit__()

    def create_realm(self, name: str = REALM) -> None:
        """Create the realm of `keycloak_realm.json` under this name."""
        own = {"realm": name, "passwordPolicy": PASSWORD_POLICY}
        self.administer("POST", "/admin/realms", json.loads(REALM_FILE.read_text()) | own)

    def sign_in(self, user: str, *, client: str = "people", realm: str = REALM) -> str:
        """Return an access token of a user."""
        return self._token(realm, grant_type="password", client_id=client, username=user, password=f"{user}-password")

    def credential_token(self, client: str, *, scope: str = "catalog", realm: str = REALM) -> str:
        """Return an access token of a service account."""
        secret = f"{client}-secret"
        return self._token(realm, grant_type="client_credentials", client_id=client, client_secret=secret, scope=scope)

    def administrator_token(self) -> str:
        return self._token(
            "master", grant_type="password", client_id="admin-cli", username="admin", password=self._password
        )

    def add_key(self, priority: int, realm: str = REALM) -> str:
        """Add a key, which signs unless another has a higher priority; return the id of its provider."""
        response = self.administer("GET", f"/admin/realms/{realm}")
        self.administer(
            "POST",
            f"/admin/realms/{realm}/components",
            {
                "name": f"rsa-{priority}",
                "parentId": response["id"],
                "providerId": "rsa-generated",
                "providerType": "org.keycloak.keys.KeyProvider",
                "config": {"priority": [str(priority)], "algorithm": ["RS256"], "keySize": ["2048"]},
            },
        )
        return self._key_providers(realm)[f"rsa-{priority}"]

    def remove_other_keys(self, kept: str, realm: str = REALM) -> None:
        """Remove all RSA keys but that of the provider `kept`; tokens that they signed become invalid."""
        for name, provider in self._key_providers(realm).items():
            if name.startswith("rsa-") and provider != kept:
                self.administer("DELETE", f"/admin/realms/{realm}/components/{provider}")

    def _key_providers(self, realm: str) -> dict[str, str]:
        found = self.administer("GET", f"/admin/realms/{realm}/components?type=org.keycloak.keys.KeyProvider")
        return {each["name"]: each["id"] for each in found}

    def administer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request to Keycloak's admin API; return its JSON, or None for a response without a body."""
        headers = {"Authorization": f"Bearer {self.administrator_token()}"}
        response = requests.request(method, self.base_url + path, json=body, headers=headers, timeout=60)
        if not response.ok:
            raise PartError(f"Keycloak: {method} {path} returned {response.status_code}: {response.text[:2000]}")
        return response.json() if response.content else None

    def _token(self, realm: str, **form: str) -> str:
        response = requests.post(self.token_endpoint(realm), data=form, timeout=60)
        if not response.ok:
            raise PartError(f"Keycloak gave no token: {response.status_code} {response.text[:2000]}")
        token: str = response.json()["access_token"]
        return token

    def _is_ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self._management_port}/health/ready"
            return requests.get(url, timeout=2).status_code == 200
        except requests.RequestException:
            return False
