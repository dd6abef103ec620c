"""Maven, which resolves parts that are published for Java: the machine's, else Apache's archive in `.parts/`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tasks.spark import java
from tests.parts.folder import PARTS
from tests.parts.process import PartError

VERSION = "3.9.16"
SHA512 = (
    "ed41650d42485cfc243fad22158caf9cbb5dc408ce7a09ddb94dd42a019de929"
    "ca43065bfa450612cf12bf78b5cafa3884b96c090de326ff590448c933454af3"
)
ARCHIVE = f"org/apache/maven/apache-maven/{VERSION}/apache-maven-{VERSION}-bin.zip"
CENTRAL = "https://repo.maven.apache.org/maven2"
SECONDS = 900


@dataclass(frozen=True)
class MavenJars:
    """All jars that the project file `pom` resolves to, in one folder of `.parts/`."""

    name: str
    pom: Path

    @property
    def version(self) -> str:
        """The first version among the properties of the project file."""
        return re.search(r"<[a-z]+\.version>(.+)</", self.pom.read_text()).group(1)  # type: ignore[union-attr]

    @property
    def home(self) -> Path:
        return PARTS / f"{self.name}-{self.version}-{hashlib.sha256(self.pom.read_bytes()).hexdigest()[:8]}"

    def find(self) -> Path | None:
        return self.home if self.home.is_dir() else None

    def require(self) -> Path:
        """Return the result of `find`; raise `PartError` where that is None."""
        found = self.find()
        if found is None:
            raise PartError(f"{self.name} is missing: run `make parts`")
        return found

    def install(self) -> Path:
        """Download the jars if needed and return the result of `find`; raise `PartError` on failure."""
        if self.find() is None:
            PARTS.mkdir(exist_ok=True)
            gather(self.pom, self.home)
        return self.home


def find_program() -> Path | None:
    """Return the path of `mvn`, or None."""
    if on_path := shutil.which("mvn"):
        return Path(on_path)
    fetched = _fetched_program()
    return fetched if fetched.exists() else None


def gather(pom: Path, home: Path) -> None:
    """Fill the folder `home` with all dependencies of `pom`, each file checked against the repository's checksums.

    The user's `~/.m2/settings.xml` (mirrors, proxies, credentials) applies. A failed download leaves no incomplete
    folder. Raises `PartError`.
    """
    program = find_program() or _fetch()
    unfinished = home.with_name(home.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        done = subprocess.run(
            [program, "--batch-mode", "--quiet", "--strict-checksums", "--file", pom, "dependency:copy-dependencies",
             f"-DoutputDirectory={unfinished}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS,
            env=os.environ | {"JAVA_HOME": str(java.find_java_home())},
        )  # fmt: skip
    except java.JavaNotFoundError as error:
        raise PartError(f"Maven needs a Java: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise PartError(f"Maven took more than {SECONDS} s for {pom}") from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
        reason = next((line for line in said if "ERROR" in line), said[-1])
        raise PartError(f"Maven could not gather what {pom} names: {reason} (a mirror: ~/.m2/settings.xml)")
    shutil.rmtree(home, ignore_errors=True)
    unfinished.rename(home)


def repository() -> str:
    """Return the repository of Maven: `MVNW_REPOURL`, else Maven Central or its mirror in `~/.m2/settings.xml`."""
    if named := os.environ.get("MVNW_REPOURL"):
        return named.rstrip("/")
    settings = Path.home() / ".m2" / "settings.xml"
    if settings.is_file():
        for mirror in ET.parse(settings).iterfind("{*}mirrors/{*}mirror"):  # noqa: S314  the user's own file
            mirrored = (mirror.findtext("{*}mirrorOf") or "").replace(" ", "").split(",")
            url = mirror.findtext("{*}url")
            if url and not {"central", "*", "external:*"}.isdisjoint(mirrored):
                return url.strip().rstrip("/")
    return CENTRAL


def _fetched_program() -> Path:
    return PARTS / f"apache-maven-{VERSION}" / "bin" / "mvn"


def _fetch() -> Path:
    """Download Maven, check its published checksum, and move it to its folder when it is complete."""
    PARTS.mkdir(exist_ok=True)
    url = f"{repository()}/{ARCHIVE}"
    archive = PARTS / "maven.zip.unfinished"
    try:
        with urllib.request.urlopen(url, timeout=60) as response, archive.open("wb") as output:  # noqa: S310  the user's
            shutil.copyfileobj(response, output)
    except OSError as error:
        raise PartError(f"Maven is not on this machine and cannot be had from {url}: {error}") from error
    with archive.open("rb") as downloaded:
        found = hashlib.file_digest(downloaded, "sha512").hexdigest()
    if found != SHA512:
        archive.unlink()
        raise PartError(f"{url} is not the archive that was expected: its SHA-512 is {found}")
    program = _fetched_program()
    unfinished = PARTS / "maven.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(unfinished)
    archive.unlink()
    home = unfinished / program.parent.parent.name
    (home / "bin" / program.name).chmod(0o755)
    home.replace(program.parent.parent)
    unfinished.rmdir()
    return program
