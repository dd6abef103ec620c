"""A catalog whose workers are separate processes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import requests

from tests.catalog_fixtures import SCHEMA
from tests.parts import process
from tests.parts.server import ROOT, CatalogServer


class Home:
    """A catalog whose server starts no worker: tests drop a table with purge and start workers themselves."""

    def __init__(self, server: CatalogServer) -> None:
        self.server = server
        self.api = f"{server.uri}/v1/{server.create_warehouse('wh')}"
        self.base = server.storage_root / "wh"
        self.log = server.home / "worker.log"
        requests.post(f"{self.api}/namespaces", json={"namespace": ["ns"]}, timeout=30).raise_for_status()

    def table(self, name: str, folders: int = 0, files: int = 0) -> Path:
        """A table with this number of folders and of files per folder."""
        folder = self.base / name
        body = {"name": name, "schema": SCHEMA, "location": f"file://{folder}"}
        response = requests.post(f"{self.api}/namespaces/ns/tables", json=body, timeout=60)
        assert response.status_code == 200, response.text
        for number in range(folders):
            (folder / f"data/{number}").mkdir(parents=True)
            for each in range(files):
                os.close(os.open(folder / f"data/{number}/{each}", os.O_CREAT | os.O_WRONLY))
        return folder

    def drop(self, name: str) -> None:
        target = f"{self.api}/namespaces/ns/tables/{name}?purgeRequested=true"
        assert requests.delete(target, timeout=60).status_code == 204

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, ROOT / "manage.py", "worker"]
        running = process.start(command, log=self.log, env=self.server.environment, cwd=self.server.home)
        try:
            yield running
        finally:
            process.kill(running)

    def tasks(self) -> list[tuple[str, int]]:
        """Status and attempt of each purge that has not ended."""
        return list(
            self.execute("SELECT status, attempt FROM tasks_task WHERE queue = 'tabular_purge' AND finished_at IS NULL")
        )

    def let_leases_end(self) -> None:
        self.execute("UPDATE tasks_task SET leased_until = '2020-01-01 00:00:00' WHERE leased_until IS NOT NULL")

    def execute(self, statement: str) -> list[Any]:
        url = self.server.environment.get("LAKEKEEPER__PG_DATABASE_URL_WRITE")
        if url is not None:
            with psycopg.connect(url, autocommit=True) as connection:
                cursor = connection.execute(statement)
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.server.home / "state" / "icekeeper.sqlite3", timeout=30)) as file, file:
            return file.execute(statement).fetchall()
