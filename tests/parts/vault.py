"""Vault in memory (`vault server -dev`), for runs that have one: `python -m tests.parts.vault` builds it.

It takes about ten minutes of one core, so `make parts` does not build it and CI uses `fake_vault.py` alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

import hvac

from tests.parts import process
from tests.parts.fake_vault import MOUNT, PASSWORD, USER
from tests.parts.folder import PARTS
from tests.parts.golang import find_go
from tests.parts.process import PartError
from tests.parts.relay import Relay

VERSION = "1.21.0"
PROGRAM = PARTS / f"vault-{VERSION}" / "vault"
ROOT_TOKEN = "root-of-a-test"
POLICY = f"""
path "{MOUNT}/data/*" {{ capabilities = ["create", "read", "update", "delete"] }}
path "{MOUNT}/metadata/*" {{ capabilities = ["read", "list", "delete"] }}
"""
"""As docs/secrets.md has it."""


class Vault:
    """One server with a user, a role and a mount. Clients connect through `relay`, which can interrupt the network."""

    is_real = True

    def __init__(self, home: Path) -> None:
        self._home, self._port = home, process.free_port()
        self.relay = Relay(self._port)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}"

    @property
    def root(self) -> Any:
        return hvac.Client(url=f"http://127.0.0.1:{self._port}", token=ROOT_TOKEN)

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        log = self._home / "vault.log"
        self._process = process.start(
            [PROGRAM, "server", "-dev", f"-dev-listen-address=127.0.0.1:{self._port}", "-dev-no-store-token"],
            log=log, env={**os.environ, "VAULT_DEV_ROOT_TOKEN_ID": ROOT_TOKEN, "HOME": str(self._home)},
        )  # fmt: skip
        process.wait_until_ready(self._is_ready, self._process, log=log, seconds=30)
        self.relay.__enter__()
        root = self.root
        root.sys.enable_auth_method("userpass")
        root.sys.enable_auth_method("approle")
        root.sys.enable_secrets_engine("kv", path=MOUNT, options={"version": "2"})
        self.deny(denies=False)
        self.set_lifetime(3600, 7200)
        root.auth.approle.create_or_update_approle("icekeeper", token_policies=["icekeeper"])
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.__exit__()
        if self._process is not None:
            process.kill(self._process)

    def set_lifetime(self, seconds: int, longest: int) -> None:
        self.root.auth.userpass.create_or_update_user(
            USER, password=PASSWORD, policies=["icekeeper"], token_ttl=seconds, token_max_ttl=longest
        )

    def role(self) -> tuple[str, str]:
        """Return role id and secret id."""
        approle = self.root.auth.approle
        return (
            approle.read_role_id("icekeeper")["data"]["role_id"],
            approle.generate_secret_id("icekeeper")["data"]["secret_id"],
        )

    def new_token(self) -> str:
        token: str = self.root.auth.token.create(policies=["icekeeper"], ttl="1h")["auth"]["client_token"]
        return token

    def revoke_all(self) -> None:
        self.root.adapter.put("/v1/sys/leases/revoke-prefix/auth/userpass")

    def deny(self, *, denies: bool) -> None:
        self.root.sys.create_or_update_policy("icekeeper", "# nothing" if denies else POLICY)

    def stored(self) -> dict[str, Any]:
        """Return the stored entries by path below the mount."""
        kv = self.root.secrets.kv.v2
        try:
            keys = kv.list_secrets("secret", mount_point=MOUNT)["data"]["keys"]
        except hvac.exceptions.InvalidPath:
            return {}
        return {
            f"secret/{key}": kv.read_secret_version(f"secret/{key}", mount_point=MOUNT, raise_on_deleted_version=True)[
                "data"
            ]["data"]
            for key in keys
        }

    def _is_ready(self) -> bool:
        try:
            return bool(self.root.sys.is_initialized())
        except Exception:  # noqa: BLE001 - not yet
            return False


def build() -> Path:
    """Build from source: Vault's module refers to local folders that no release contains, so `go install` fails."""
    if PROGRAM.is_file():
        return PROGRAM
    home, module = PROGRAM.parent, f"github.com/hashicorp/vault@v{VERSION}"
    unfinished = home.with_name(home.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    go = find_go()
    reported = subprocess.run(
        [go, "mod", "download", "-json", module], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r'"Dir": "([^"]+)"', reported)
    if found is None:
        raise PartError(f"{module} could not be fetched")
    source = unfinished / "source"
    shutil.copytree(found[1], source)
    subprocess.run(["chmod", "-R", "u+w", source], check=True)
    described = source / "go.mod"
    described.write_text(re.sub(r"(?m)^replace github.com/hashicorp/vault/.*\n", "", described.read_text()))
    subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-tags", "minimal", "-ldflags", "-s -w", "-o", "../vault", "."],
        cwd=source, check=True, env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"},
    )  # fmt: skip
    shutil.rmtree(source)
    unfinished.rename(home)
    return PROGRAM


if __name__ == "__main__":
    print(build())
