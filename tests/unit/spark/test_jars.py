"""The cache of resolved jars, and the conditions for a new resolution."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.spark import session


class Resolver:
    """A stand-in for Spark's resolution at Maven Central: writes one file per package, and counts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, packages: Sequence[str], ivy_dir: Path, _: Mapping[str, str]) -> list[Path]:
        self.asked.append(tuple(packages))
        found = [ivy_dir / f"{package.replace(':', '_')}.jar" for package in packages]
        for jar in found:
            jar.write_bytes(b"classes of " + jar.name.encode())
        return found


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    created = Resolver()
    monkeypatch.setattr(session, "_ask_spark", created)
    return created


def test_packages_are_resolved_once(resolver: Resolver, tmp_path: Path) -> None:
    first = session.resolve_jars(["g:a:1", "g:b:1"], ivy_dir=tmp_path)
    assert [jar.name for jar in first] == ["g_a_1.jar", "g_b_1.jar"]
    assert session.resolve_jars(["g:a:1", "g:b:1"], ivy_dir=tmp_path) == first
    assert resolver.asked == [("g:a:1", "g:b:1")]


@pytest.mark.parametrize("packages", [["g:a:2"], ["g:a:1", "g:b:1"]])
def test_other_packages_are_another_matter(resolver: Resolver, tmp_path: Path, packages: list[str]) -> None:
    session.resolve_jars(["g:a:1"], ivy_dir=tmp_path)
    session.resolve_jars(packages, ivy_dir=tmp_path)
    assert resolver.asked == [("g:a:1",), tuple(packages)]


def test_only_a_change_of_the_repository_resolves_again(resolver: Resolver, tmp_path: Path) -> None:
    session.resolve_jars(["g:a:1"], ivy_dir=tmp_path)
    session.resolve_jars(["g:a:1"], ivy_dir=tmp_path, settings={"spark.driver.memory": "2g"})
    assert len(resolver.asked) == 1
    session.resolve_jars(["g:a:1"], ivy_dir=tmp_path, settings={"spark.jars.repositories": "https://mirror"})
    assert len(resolver.asked) == 2


@pytest.mark.parametrize("damage", [b"classes of g_a_1.jaR", b"", None])
def test_a_damaged_or_lost_jar_is_downloaded_again(resolver: Resolver, tmp_path: Path, damage: bytes | None) -> None:
    (jar,) = session.resolve_jars(["g:a:1"], ivy_dir=tmp_path)
    if damage is None:
        jar.unlink()
    else:
        jar.write_bytes(damage)
    assert session.resolve_jars(["g:a:1"], ivy_dir=tmp_path) == [jar]
    assert jar.read_bytes() == b"classes of g_a_1.jar"
    assert len(resolver.asked) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"x": 1}'])
def test_a_damaged_record_is_rewritten(resolver: Resolver, tmp_path: Path, text: str) -> None:
    session.resolve_jars(["g:a:1"], ivy_dir=tmp_path)
    (record,) = (tmp_path / "resolved").glob("*.json")
    record.write_text(text)
    assert len(session.resolve_jars(["g:a:1"], ivy_dir=tmp_path)) == 1
    assert len(resolver.asked) == 2


def test_of_many_at_once_one_asks(resolver: Resolver, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda _: session.resolve_jars(["g:a:1"], ivy_dir=tmp_path), range(8)))
    assert all(jar == found[0] for jar in found)
    assert len(resolver.asked) == 1


@pytest.mark.parametrize(
    ("said", "reason", "cure"),
    [
        ("loading\nServer access error: PKIX path building failed\nUnresolved", "PKIX", "JAVA_TOOL_OPTIONS"),
        ("Host x not found.\nRuntimeException: [unresolved dependency: g#a;1: not found]", "g#a;1", "mirror"),
        ("", "no message", "mirror"),
    ],
)
def test_a_failure_is_said_in_one_line_with_its_cure(said: str, reason: str, cure: str) -> None:
    line = session._explain(["g:a:1"], io.BytesIO(said.encode()))
    assert line.startswith("cannot get g:a:1: ")
    assert reason in line
    assert cure in line
    assert "\n" not in line
