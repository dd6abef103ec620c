"""Find the blocks of commands, programs and SQL in the documentation and run them in one shell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.harness.page_transcripts import Command, Transcripts, alike, commands_of
from tests.parts import process

ROOT: Final = Path(__file__).resolve().parents[2]
KINDS: Final = frozenset({"sh", "bash", "shell", "console", "python", "pycon", "sql", "js"})
NOT_OF_A_CHECKOUT: Final = frozenset({".git", ".icekeeper", "build", "data"})


UPDATES: Final = os.environ.get("UPDATE_WALKTHROUGH") == "1"
"""Whether changed outputs are written to the pages."""


@dataclass(frozen=True)
class CommandBlock:
    """A block of the page `page` whose fence is at `line`.

    `output` is what a Python program prints: the content of the next block below the heading, if that has no kind.
    """

    page: str
    heading: str
    line: int
    kind: str
    content: str
    output: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.heading}): {self.content.splitlines()[0][:80]}"


def path_of(page: str) -> Path:
    return ROOT / page if page == "README.md" else ROOT / "docs" / page


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def command_blocks(page: Path) -> Iterator[CommandBlock]:
    """Return the blocks of a page in order."""
    blocks = list(_all_blocks(page))
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        if block.kind in KINDS:
            prints = block.kind == "python" and following and not following.kind and following.heading == block.heading
            yield replace(block, output=tuple(following.content.splitlines())) if prints and following else block


def _all_blocks(page: Path) -> Iterator[CommandBlock]:
    heading, kind, start = "", None, 0
    content: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if kind is None and line.startswith("#"):
            heading = line.lstrip("# ")
        elif kind is None and line.startswith("```"):
            kind, start, content = line.removeprefix("```"), number, []
        elif kind is not None and line == "```":
            yield CommandBlock(page.name, heading, start, kind, "".join(f"{each}\n" for each in content))
            kind = None
        else:
            content.append(line)


def blocks_below(page: str, heading: str) -> list[CommandBlock]:
    found = [block for block in command_blocks(path_of(page)) if block.heading == heading]
    assert found, f"{page} has no command block below {heading!r}"
    return found


LOG_LINE: Final = '{"timestamp":'
"""Log lines in the output of commands, which pages do not show."""

_CUT_ID: Final = re.compile(r"[0-9a-f]{8}-\.\.\.")

ERROR: Final = '{"error":'

SERVES: Final = """
unset ${!LAKEKEEPER__@} ${!ICEKEEPER__@} ${!ICEBERG_REST__@} DJANGO_SETTINGS_MODULE TOKEN
export LAKEKEEPER__LISTEN_PORT=%(port)d LAKEKEEPER__METRICS__PORT=%(metrics)d LAKEKEEPER__BIND_IP=127.0.0.1
until_it_serves() {
  for i in {1..600}; do
    curl -sf http://127.0.0.1:%(port)d/health > /dev/null && return
    sleep 0.1
  done
  cat server.log
  return 1
}
"""
IN_BACKGROUND: Final = {
    "make setup\n": "true\n",
    "make run": "make --no-print-directory --old-file=setup run > server.log 2>&1 & until_it_serves",
    "manage.py serve &": "manage.py serve > server.log 2>&1 & until_it_serves",
}
"""Substitutes for commands that do not end or that were run before."""


class PageShell:
    """Run blocks of pages one after the other in a copy of a checkout."""

    def __init__(self, run: Transcripts) -> None:
        self._run = run

    def prepare(self, *commands: str) -> None:
        """Run a command that the text of the page asks for; it must succeed."""
        for command in commands:
            response, status = self._response(command)
            assert status == "0", f"{command}\nreturned {response}"

    def _response(self, command: str) -> tuple[list[str], str]:
        """Run a command and return its output without log lines, and its exit status."""
        response = self._run.shell(f"{command.rstrip()}\nexit_status=$?")
        return [line for line in response if not line.startswith(LOG_LINE)], self._run.value("exit_status")

    def run(self, blocks: Sequence[CommandBlock], *, with_responses: bool = True) -> None:
        """Run the blocks; no command may fail or print an error that the page does not show.

        Each output on the page must match, except for ids and times; a line with `...` stands for any lines that begin
        and end like it. Without `with_responses` the outputs are not compared.
        """
        said: list[Command] = []
        on_page: list[Command] = []
        pages: list[str] = []
        for block in blocks:
            for command in _commands(block):
                response, status = self._response(command.text)
                if command.response and with_responses:
                    said.append(Command(command.text, response))
                    on_page.append(command)
                    pages.append(block.page)
                elif not command.response:
                    assert status == "0", f"{block}\n{command.text}\nreturned {response}"
                if ERROR not in "".join(command.response):
                    assert ERROR not in "".join(response), f"{block}\n{command.text}\nreturned {response}"
        for index, (ours, theirs) in enumerate(zip(alike(said), alike(on_page), strict=True)):
            if not _is_alike(ours.response, theirs.response):
                assert UPDATES, f"{ours.text}\nis on {pages[index]}: {theirs.response}\nnow: {ours.response}"
                _update(path_of(pages[index]), on_page[index], said[index])


def _commands(block: CommandBlock) -> list[Command]:
    """In a block without prompts, a comment after a command is its output."""
    if block.kind == "console":
        return commands_of(block.content)
    if block.kind == "python":
        return [Command(f".venv/bin/python - <<'END'\n{block.content}END", list(block.output))]
    found = [Command("", [])]
    for line in block.content.splitlines():
        if line.startswith("# ") and found[-1].text:
            found[-1].response.append(line.removeprefix("# "))
        elif found[-1].response:
            found.append(Command(f"{line}\n", []))
        else:
            found[-1].text += f"{line}\n"
    return found


def _update(path: Path, former: Command, now: Command) -> None:
    before, after = ("\n".join([f"$ {each.text}", *each.response, ""]) for each in (former, now))
    page = path.read_text()
    assert before in page, former
    path.write_text(page.replace(before, after, 1))


def _is_alike(said: Sequence[str], on_page: Sequence[str]) -> bool:
    patterns = [".*".join(re.escape(part) for part in _CUT_ID.sub("...", line).split("...")) for line in on_page]
    return len(said) == len(on_page) and all(map(re.fullmatch, patterns, said))


@contextmanager
def page_shell(home: Path, *, instead: Mapping[str, str] | None = None) -> Iterator[PageShell]:
    """Open a shell with the addresses and paths of this run; `instead` are further replacements."""
    for entry in ROOT.iterdir():
        if entry.name not in NOT_OF_A_CHECKOUT and not (home / entry.name).exists():
            (home / entry.name).symlink_to(entry)
    port, metrics = process.free_port(), process.free_port()
    replacements = IN_BACKGROUND | {
        "http://127.0.0.1:8181": f"http://127.0.0.1:{port}",
        "http://127.0.0.1:9000": f"http://127.0.0.1:{metrics}",
        "/srv/icekeeper": str(home),
        **(instead or {}),
    }
    home = home.resolve()
    with Transcripts(instead=replacements, names={}, home=home) as run:
        run.shell(SERVES % {"port": port, "metrics": metrics})
        try:
            yield PageShell(run)
        finally:
            run.shell("kill $(jobs -p); wait")
