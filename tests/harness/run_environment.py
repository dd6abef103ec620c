"""The environment of one pytest run, created before Django reads its settings: database, folders, nothing
inherited.

`ICEKEEPER_TEST_DATABASE` selects `sqlite` (the default) or `postgres`, which is then started for the run.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from tests.parts.postgres import Postgres

DATABASES = ("sqlite", "postgres")
PRODUCT_PREFIXES = ("LAKEKEEPER__", "ICEKEEPER__", "ICEBERG_REST__")


class RunEnvironment:
    """Resources of a run: `database` (its kind), `home` (its temporary folder), `postgres` (the server, or None)."""

    def __init__(self) -> None:
        self.database = os.environ.get("ICEKEEPER_TEST_DATABASE", "sqlite")
        if self.database not in DATABASES:
            raise ValueError(f"ICEKEEPER_TEST_DATABASE is {self.database!r}; it takes {' or '.join(DATABASES)}")
        self.home = Path(tempfile.mkdtemp(prefix="icekeeper-tests-"))
        self.postgres: Postgres | None = None

    @property
    def storage_root(self) -> Path:
        return self.home / "storage"

    def enter(self) -> None:
        """Start the database and set the product's variables.

        Tests kill processes, but the machine does not crash: neither PostgreSQL nor this process syncs files to disk.
        Tests about `os.fsync` replace it themselves.
        """
        os.fsync = lambda fd: None
        for name in [name for name in os.environ if name.upper().startswith(PRODUCT_PREFIXES)]:
            del os.environ[name]
        self.storage_root.mkdir()
        os.environ["DJANGO_SETTINGS_MODULE"] = "icekeeper.settings"
        os.environ["ICEKEEPER__DATA_DIR"] = str(self.home / "state")
        # The same on both databases, and without a statement; servers that tests start compute their own.
        os.environ["ICEKEEPER__SECRET_KEY"] = secrets.token_urlsafe(48)
        os.environ["ICEKEEPER__LOCAL_STORAGE_ROOT"] = str(self.storage_root)
        # Most profiles of tests name stores that do not exist. Servers that tests start, and tests of validation,
        # switch it on.
        os.environ["LAKEKEEPER__SKIP_STORAGE_VALIDATION"] = "true"
        # Most tests are not about authorization; those that are select an authorizer.
        os.environ["LAKEKEEPER__AUTHZ_BACKEND"] = "allowall"
        if self.database == "postgres":
            self.postgres = Postgres(fsync=False).start()
            os.environ["LAKEKEEPER__PG_DATABASE_URL_WRITE"] = self.postgres.url

    def own_database(self, name: str) -> str | None:
        """Return the URL of an empty database for a server that a test starts; None on SQLite, where the server creates
        a file.
        """
        return None if self.postgres is None else self.postgres.create_database(name)

    def leave(self) -> None:
        """Stop the database and remove the folder; may be called twice."""
        if self.postgres is not None:
            self.postgres.stop()
        shutil.rmtree(self.home, ignore_errors=True)
