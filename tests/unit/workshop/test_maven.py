"""Maven for machines without it, and jars that are complete or absent."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.parts import maven
from tests.parts.process import PartError

MIRRORED = """<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
<mirror><id>other</id><mirrorOf>snapshots</mirrorOf><url>https://wrong.example</url></mirror>
<mirror><id>ours</id><mirrorOf>{of}</mirrorOf><url> https://mirror.example/maven/ </url></mirror>
</mirrors></settings>"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "parts"
    monkeypatch.setattr(maven, "PARTS", folder)
    return folder


@pytest.fixture
def no_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing-here"))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of files with Apache's archive, whose `mvn` prints its arguments."""
    path = tmp_path / "repository" / maven.ARCHIVE
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"apache-maven-{maven.VERSION}/bin/mvn", "#!/bin/sh\necho fetched\n")
    monkeypatch.setenv("MVNW_REPOURL", (tmp_path / "repository").as_uri() + "/")
    return path


def fake_maven(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "mvn").write_text(f"#!/bin/sh\nfor word; do last=$word; done\nout=${{last#*=}}\n{script}\n")
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("no_maven")
def test_maven_is_fetched_by_its_sum(parts: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "SHA512", hashlib.sha512(archive.read_bytes()).hexdigest())
    assert maven.find_program() is None
    program = maven._fetch()
    assert maven.find_program() == program
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "fetched\n"
    assert [path.name for path in parts.iterdir()] == [f"apache-maven-{maven.VERSION}"]


@pytest.mark.usefixtures("no_maven", "archive")
def test_another_archive_is_refused_and_not_kept(parts: Path) -> None:
    with pytest.raises(PartError, match="SHA-512"):
        maven._fetch()
    assert list(parts.iterdir()) == []
    assert maven.find_program() is None


@pytest.mark.usefixtures("parts")
def test_a_repository_that_does_not_respond_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MVNW_REPOURL", (tmp_path / "nowhere").as_uri())
    with pytest.raises(PartError, match=r"cannot be had from file:.*/nowhere/org/apache/maven"):
        maven._fetch()


@pytest.mark.parametrize("mirrored", ["central", "*", "external:*", "releases, central"])
def test_maven_comes_from_the_mirror_that_its_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirrored: str
) -> None:
    monkeypatch.delenv("MVNW_REPOURL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert maven.repository() == maven.CENTRAL
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(MIRRORED.format(of=mirrored))
    assert maven.repository() == "https://mirror.example/maven"


def test_jars_are_gathered_into_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_maven(tmp_path / "bin", 'mkdir -p "$out" && echo "$JAVA_HOME" > "$out/a.jar"', monkeypatch)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "old.jar").touch()
    maven.gather(tmp_path / "pom.xml", tmp_path / "home")
    (jar,) = (tmp_path / "home").iterdir()
    assert (Path(jar.read_text().strip()) / "bin" / "java").exists()


def test_a_failed_download_keeps_the_existing_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_maven(tmp_path / "bin", 'mkdir -p "$out"; touch "$out/half"; echo "[ERROR] no such jar"; exit 1', monkeypatch)
    with pytest.raises(PartError, match="no such jar"):
        maven.gather(tmp_path / "pom.xml", tmp_path / "home")
    assert not (tmp_path / "home").exists()
