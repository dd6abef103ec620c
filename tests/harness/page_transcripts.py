"""Replay of transcripts on documentation pages: shell commands by a real bash, Python as doctest does it.

A `console` block holds commands, each after `$ ` and continued by indented lines, and under each its output without
empty lines. A `pycon` block holds Python input and its output; `...` matches anything. Shell output is compared without
ids and times: those that are equal on the page must be equal again.
"""

from __future__ import annotations

import doctest
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

_BLOCK: Final = re.compile(r"^```(console|pycon)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CHANGING: Final = re.compile(
    r"(?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?P<time>\b1[6-9]\d{11}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(?:Z|\+00:00))"
)
_END: Final = "\x1e"


@dataclass
class Command:
    text: str
    response: list[str]


def blocks_of(section: str) -> list[tuple[str, str]]:
    """Return type and content of each transcript."""
    return [(kind, content) for kind, content in _BLOCK.findall(section)]


def section_of(page: str, heading: str) -> str:
    """Return the text from the heading to the next one of its level."""
    _, found, rest = page.partition(f"\n{heading}\n")
    assert found, f"there is no {heading!r}"
    level = heading.partition(" ")[0]
    return re.split(rf"^{level} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def commands_of(content: str) -> list[Command]:
    """Return the commands of a `console` block."""
    found: list[Command] = []
    for line in content.splitlines():
        if line.startswith("$ "):
            found.append(Command(line.removeprefix("$ "), []))
        elif line.startswith("  ") and not found[-1].response:
            found[-1].text += f"\n{line}"
        else:
            found[-1].response.append(line)
    return found


class Transcripts:
    """One bash and one Python that run block after block.

    `instead` are addresses of the page and those of this run. `said` are all commands with their current output. A
    context manager.
    """

    def __init__(self, *, instead: Mapping[str, str], names: Mapping[str, Any], home: Path) -> None:
        self.said: list[Command] = []
        self.names = dict(names)
        self._instead = instead
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=home,
        )  # fmt: skip

    def run(self, kind: str, content: str) -> None:
        """Raise `AssertionError` for Python output that differs from the page."""
        if kind == "console":
            self.said += [Command(each.text, self.shell(each.text)) for each in commands_of(content)]
        else:
            self._run_python(content)

    def shell(self, command: str) -> list[str]:
        """Return the output lines of bash, with the page's addresses."""
        stdin, stdout = self._bash.stdin, self._bash.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{self._with_ours(command)}\nprintf '\\n{_END}\\n'\n".encode())
        stdin.flush()
        lines: list[str] = []
        while (line := stdout.readline().decode()) != f"{_END}\n":
            assert line, f"bash ended at {command}"
            lines.append(line.rstrip("\n"))
        response = "\n".join(line for line in lines if line)
        for of_page, ours in self._instead.items():
            response = response.replace(ours, of_page)
        return response.splitlines()

    def value(self, name: str) -> str:
        """Return the value of a shell variable."""
        return "".join(self.shell(f"echo ${name}"))

    def _run_python(self, content: str) -> None:
        reported: list[str] = []
        test = doctest.DocTestParser().get_doctest(self._with_ours(content), self.names, "page", None, None)
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.REPORT_ONLY_FIRST_FAILURE)
        runner.run(test, out=reported.append, clear_globs=False)
        assert not reported, "".join(reported)[:6000]
        self.names = test.globs

    def _with_ours(self, text: str) -> str:
        for of_page, ours in self._instead.items():
            text = text.replace(of_page, ours)
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        self._bash.stdout.close()
        self._bash.wait(30)


def alike(commands: Sequence[Command]) -> list[Command]:
    """Replace each id and time by its number of first appearance, so that two runs can be compared."""
    known: dict[str, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        return known.setdefault(found[0], f"<id {len(known)}>") if found["id"] else "<time>"

    return [Command(each.text, [_CHANGING.sub(stand_in, line) for line in each.response]) for each in commands]


def rewritten(page: str, section: str, said: Sequence[Command]) -> str:
    """Return the page with this output in the `console` blocks of the section."""
    left = iter(said)

    def block(found: re.Match[str]) -> str:
        if found[1] != "console":
            return found[0]
        reported = [next(left) for _ in commands_of(found[2])]
        lines = [line for each in reported for line in (f"$ {each.text}", *each.response)]
        return "```console\n" + "\n".join(lines) + "\n```"

    return page.replace(section, _BLOCK.sub(block, section))
