"""Replay of documentation transcripts: differences from the page are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.page_transcripts import Command, Transcripts, alike, blocks_of, commands_of, rewritten, section_of

FIRST, SECOND = "0190c3a0-0000-7000-8000-00000000000a", "0190c3a0-0000-7000-8000-00000000000b"
PAGE = """
## Before
## Here
```console
$ a=1
$ for each in x y; do
    echo "$each$a at http://page"
  done
x1 at http://page
y1 at http://page
```
```pycon
>>> n = 20 + 1
>>> n * 2
42
```
```sh
rm -rf /
```
## After
```console
$ false
```
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Transcripts]:
    with Transcripts(instead={"http://page": "http://here"}, names={}, home=tmp_path) as run:
        yield run


def test_a_section_is_run_in_one_shell_with_our_addresses_in_place_of_the_pages(run: Transcripts) -> None:
    section = section_of(PAGE, "## Here")
    (kind, console), (other, python) = blocks_of(section)
    assert (kind, other) == ("console", "pycon")
    run.run(kind, console)
    run.run(other, python)
    assert [each.response for each in run.said] == [[], ["x1 at http://page", "y1 at http://page"]]
    assert run.said == commands_of(console)
    assert (run.value("a"), run.names["n"]) == ("1", 21)
    assert run.shell("echo http://page | grep -c here") == ["1"]
    assert rewritten(PAGE, section, run.said) == PAGE


def test_another_response_has_another_etag(run: Transcripts) -> None:
    (said,) = commands_of("$ echo 1; echo; ls nowhere 2>&1 | wc -l\n1\n2\n")
    response = run.shell(said.text)
    assert response == ["1", "1"]
    assert alike([Command(said.text, response)]) != alike([said])
    assert rewritten("```console\n$ a\nold\n```", "```console\n$ a\nold\n```", [Command("a", ["new"])]) == (
        "```console\n$ a\nnew\n```"
    )


def test_python_with_other_output_is_rejected(run: Transcripts) -> None:
    run.run("pycon", ">>> 1 / 0\nTraceback (most recent call last):\n    ...\nZeroDivisionError: ...\n")
    for wrong in (">>> 1 + 1\n3\n", ">>> 1 / 0\n", ">>> int('x')\nTraceback (most recent call last):\nOSError: x\n"):
        with pytest.raises(AssertionError, match="Failed example"):
            run.run("pycon", wrong)


def test_ids_and_times_may_differ_but_not_which_are_the_same() -> None:
    def reported(*response: str) -> list[Command]:
        return alike([Command("c", list(response))])

    assert reported(f"{FIRST} {SECOND}", FIRST) == reported(f"{SECOND} {FIRST}", SECOND)
    assert reported(FIRST, FIRST) != reported(FIRST, SECOND)
    assert reported("2026-11-23T00:00:00.5Z") == reported("2025-01-01T10:00:00+00:00")
    assert reported("2026-11-23") != reported("2026-11-24")
