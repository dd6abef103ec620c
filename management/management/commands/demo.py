from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from management.management.demo_stores import STORES, DemoStore, free_port, is_ok

WAREHOUSE = "demo"
START_SECONDS = 60
STOP_SECONDS = 40
PRODUCT_PREFIXES = ("LAKEKEEPER__", "ICEKEEPER__", "ICEBERG_REST__")


class Command(BaseCommand):
    help = (
        "Run an end-to-end demo on this machine: serve a catalog in a temporary folder, write and change data through "
        "it with Spark, restart it, read everything back with Spark and PyIceberg, stop. Everything is removed at "
        "the end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--store", choices=list(STORES), default="local",
            help="store of the tables: a folder, or a MinIO that is started for the demo",
        )  # fmt: skip
        parser.add_argument("--keep", action="store_true", help="keep the temporary folder with state, data and log")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = Path(tempfile.mkdtemp(prefix="icekeeper-demo-")).resolve()
        demo = Demo(folder, STORES[options["store"]](folder))
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            demo.run(say=self.stdout.write)
        except KeyboardInterrupt:
            raise CommandError("demo: interrupted") from None
        finally:
            demo.stop_server()
            demo.store.stop()
            if options["keep"]:
                self.stdout.write(f"State, data and log are in {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)


class Demo:
    """One run in `folder`, on a free port; every step is a process, as an operator would start it."""

    def __init__(self, folder: Path, store: DemoStore) -> None:
        self.folder, self.store = folder, store
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        self.server: subprocess.Popen[bytes] | None = None
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PRODUCT_PREFIXES)}
        self.environment = inherited | {
            "ICEKEEPER__DATA_DIR": str(folder / "state"),
            "ICEKEEPER__LOCAL_STORAGE_ROOT": str(folder / "warehouses"),
            "LAKEKEEPER__BIND_IP": "127.0.0.1",
            "LAKEKEEPER__LISTEN_PORT": str(self.port),
        }

    def run(self, *, say: Any) -> None:
        started = time.monotonic()
        self.store.start()
        self._manage("migrate", "--verbosity", "0")
        self._manage("bootstrap")
        self.start_server()
        say(f"The catalog serves on {self.address}/catalog, its API documentation on {self.address}/swagger-ui")
        self._create_warehouse()
        self._spark("load")
        self.stop_server()
        self.start_server()
        say("The server was restarted.")
        self._spark("verify")
        say(f"Tables:   {self.store.describe()}")
        say(f"Catalog:  {self.address}/catalog  (warehouse {WAREHOUSE})")
        say(f"API docs: {self.address}/swagger-ui")
        self.stop_server()
        say(f"The demo succeeded after {time.monotonic() - started:.0f} s; to keep the data, use `make run`.")

    def start_server(self) -> None:
        with self.log.open("ab") as log:
            self.server = subprocess.Popen(
                [sys.executable, "manage.py", "serve"],
                cwd=settings.BASE_DIR, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + START_SECONDS
        while not is_ok(f"{self.address}/health"):
            if self.server.poll() is not None or time.monotonic() > until:
                tail = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
                raise CommandError(f"demo: the server did not start: {tail[0][:500]}")
            time.sleep(0.1)

    def stop_server(self) -> None:
        if self.server is None or self.server.poll() is not None:
            return
        self.server.terminate()
        try:
            self.server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.server.pid, signal.SIGKILL)
            self.server.wait()

    def _manage(self, *arguments: str) -> None:
        self._run(f"manage.py {arguments[0]}", [sys.executable, "manage.py", *arguments])

    def _spark(self, step: str) -> None:
        options = ["--catalog-uri", f"{self.address}/catalog", "--warehouse", WAREHOUSE, *self.store.spark_arguments]
        self._run(f"the Spark pipeline ({step})", [sys.executable, "-m", "tasks.spark.demo", step, *options])

    def _run(self, what: str, command: list[str]) -> None:
        status = subprocess.run(command, cwd=settings.BASE_DIR, env=self.environment, check=False).returncode  # noqa: S603
        if status:
            raise CommandError(f"demo: {what} failed with exit status {status}")

    def _create_warehouse(self) -> None:
        request = urllib.request.Request(  # noqa: S310
            f"{self.address}/management/v1/warehouse",
            data=json.dumps({"warehouse-name": WAREHOUSE, **self.store.storage()}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
        except urllib.error.URLError as error:
            raise CommandError(f"demo: the warehouse could not be created: {error}") from None
