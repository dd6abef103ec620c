"""The catalog itself as a part: the real `manage.py serve` with its own database and folders, as operators start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import requests

from tests.parts import process, server_databases
from tests.parts.process import PartError

ROOT = Path(__file__).resolve().parents[2]
PRODUCT_PREFIXES = ("LAKEKEEPER__", "ICEKEEPER__", "ICEBERG_REST__")
BOOTSTRAP_PREFIXES = (
    "ICEBERG_REST__",
    "ICEKEEPER__AUDIT",
    "LAKEKEEPER__AUDIT",
    "LAKEKEEPER__DEFAULT_PROJECT_ID",
    "LAKEKEEPER__ENABLE_DEFAULT_PROJECT",
    "LAKEKEEPER__OPENFGA",
)
"""Settings that change what `manage.py bootstrap` writes."""


class CatalogServer:
    """One server below `home`: state in `state/`, local warehouses below `storage/`, output in `server.log`.

    `database_url` selects PostgreSQL, None SQLite. `arguments` are those of `serve`, `settings` further environment
    variables. Clients use `uri`, `warehouse` and `warehouse_id`; tests of crashes use `kill` and `restart`, which keep
    address and state.
    """

    command: ClassVar[str] = "serve"
    """The command of `manage.py` that runs the server."""

    def __init__(
        self,
        home: Path,
        *,
        database_url: str | None = None,
        workers: int = 1,
        threads: int = 8,
        arguments: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.home, self.arguments = home, arguments
        self.storage_root = home / "storage"
        self.log_path = home / "server.log"
        self.port = process.free_port()
        self.warehouse = ""
        self.warehouse_id = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._database_url = database_url
        self._settings = {
            "ICEKEEPER__DATA_DIR": str(home / "state"),
            "ICEKEEPER__LOCAL_STORAGE_ROOT": str(self.storage_root),
            "ICEKEEPER__SERVER__WORKERS": str(workers),
            "ICEKEEPER__SERVER__THREADS": str(threads),
            "LAKEKEEPER__AUTHZ_BACKEND": "allowall",
            "LAKEKEEPER__BIND_IP": "127.0.0.1",
            "LAKEKEEPER__METRICS__PORT": "off",
        }
        if database_url is not None:
            self._settings["LAKEKEEPER__PG_DATABASE_URL_WRITE"] = database_url
        self._settings |= settings or {}

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def uri(self) -> str:
        """The catalog `uri` for Iceberg clients."""
        return f"{self.base_url}/catalog"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PartError("the catalog server is not running")
        return self._process.pid

    @property
    def environment(self) -> dict[str, str]:
        """The caller's environment, with only the product variables of this server."""
        left_out = (*PRODUCT_PREFIXES, "DJANGO_SETTINGS_MODULE")
        inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(left_out)}
        return inherited | self._settings | {"LAKEKEEPER__LISTEN_PORT": str(self.port)}

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command of `manage.py` against this server's database, which may fail."""
        return subprocess.run(
            [sys.executable, ROOT / "manage.py", *arguments],
            capture_output=True, text=True, check=False, env=self.environment, cwd=self.home,
        )  # fmt: skip

    def manage(self, *arguments: str) -> str:
        """Run one command of `manage.py` against this server's database; return its output."""
        done = self.run_command(*arguments)
        if done.returncode:
            raise PartError(f"manage.py {' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def prepare(self) -> Self:
        """Create an empty, bootstrapped catalog."""
        if any(name.startswith(BOOTSTRAP_PREFIXES) for name in self._settings):
            self.migrate()
            self.manage("bootstrap")
            return self
        return self._fill("bootstrapped")

    def migrate(self) -> Self:
        """Create a catalog that is not bootstrapped."""
        return self._fill("migrated")

    def _fill(self, template: server_databases.Template) -> Self:
        self.storage_root.mkdir(parents=True, exist_ok=True)
        if self._database_url is None:
            server_databases.fill_sqlite(Path(self._settings["ICEKEEPER__DATA_DIR"]), template)
        else:
            server_databases.fill_postgres(self._database_url, template)
        return self

    def start(self) -> Self:
        """Start the server, and return when the health check succeeds."""
        self._process = process.start(
            [sys.executable, ROOT / "manage.py", self.command, *self.arguments],
            log=self.log_path, env=self.environment, cwd=self.home,
        )  # fmt: skip
        try:
            process.wait_until_ready(self._is_healthy, self._process, log=self.log_path, seconds=60)
        except PartError:
            self.kill()
            raise
        return self

    def wait(self, seconds: float = 60) -> int:
        """Wait for the server to end; return its exit status."""
        if self._process is None:
            raise PartError("the catalog server is not running")
        return self._process.wait(seconds)

    def stop(self) -> None:
        """Stop gracefully, as a supervisor would."""
        if self._process is not None:
            process.stop(self._process, gently=signal.SIGTERM, seconds=30)
            self._process = None

    def kill(self) -> None:
        """Send SIGKILL to master, workers and task process at the same time, as in a power failure."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None

    def log_lines(self, logger: str) -> list[dict[str, Any]]:
        """Return the log lines of `logger` so far."""
        complete, _, _ = self.log_path.read_bytes().rpartition(b"\n")  # the last line may be incomplete
        written = [json.loads(line) for line in complete.splitlines() if line.startswith(b"{")]
        return [line for line in written if line["logger"] == logger]

    def restart(self) -> Self:
        """Start again on the same address and state, whether it was stopped, killed or still runs."""
        self.stop()
        return self.start()

    def create_warehouse(self, name: str, *, token: str | None = None, **options: bool) -> str:
        """Create a warehouse on local files in its own folder, set it as `warehouse`, and return its id.

        `token` is the caller's, where the server requires one; `options` are further members of the storage profile.
        """
        profile = {"type": "local", "path": str(self.storage_root / name)}
        profile |= {option.replace("_", "-"): value for option, value in options.items()}
        return self.create_warehouse_on(name, {"storage-profile": profile}, token=token)

    def create_warehouse_on(self, name: str, storage: Mapping[str, Any], *, token: str | None = None) -> str:
        """As `create_warehouse`, with `storage-profile` and `storage-credential` of any store."""
        response = self._post("/management/v1/warehouse", {"warehouse-name": name, **storage}, token)
        self.warehouse = name
        self.warehouse_id = response.get("warehouse-id") or response["id"]
        return self.warehouse_id

    def _post(self, path: str, body: Mapping[str, Any], token: str | None) -> dict[str, Any]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        response = requests.post(self.base_url + path, json=body, headers=headers, timeout=30)
        if not response.ok:
            raise PartError(f"POST {path} returned {response.status_code}: {response.text[:2000]}")
        content: dict[str, Any] = response.json()
        return content

    def _is_healthy(self) -> bool:
        try:
            return requests.get(f"{self.base_url}/health", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def __enter__(self) -> Self:
        return self.prepare().start()

    def __exit__(self, *_: object) -> None:
        self.stop()
