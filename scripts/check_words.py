"""`make lint-words`: reject words of `words.toml` in code, messages and documentation, with the term to use instead."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "icekeeper",
    "tenancy",
    "events",
    "storage",
    "tasks",
    "catalog",
    "management",
    "templates",
    "scripts",
    "tests",
    "docs",
    "docker",
)
PAGES = ("README.md", "CHANGELOG.md", "Makefile", ".ci/run")
SUFFIXES = {".py", ".md", ".html", ".sh", ".toml", ".yaml", ".yml", ".rego", ""}
OWN_FILES = {"scripts/words.toml", "scripts/check_words.py"}

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Word:
    """One entry of `words.toml`."""

    never: re.Pattern[str]
    say: str
    allow: re.Pattern[str] | None
    files: tuple[str, ...]


def read_words() -> list[Word]:
    entries = tomllib.loads((ROOT / "scripts/words.toml").read_text())["word"]
    return [
        Word(
            never=re.compile(rf"\b(?:{entry['never']})\b", 0 if entry.get("case") else re.IGNORECASE),
            say=entry["say"],
            allow=re.compile("|".join(entry["allow"]), re.IGNORECASE) if "allow" in entry else None,
            files=tuple(entry.get("files", ())),
        )
        for entry in entries
    ]


def list_files(paths: list[str]) -> list[str]:
    """The checked files that git knows or does not ignore, below `paths` (all if empty)."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *(paths or (*SOURCES, *PAGES))]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in sorted(set(listed)) if _is_checked(name)]


def find(words: list[Word], name: str) -> Iterator[tuple[int, str, str]]:
    """Line number, matched word and the term to use, for each match in the file `name`."""
    whole = _CAMEL_CASE.sub(" ", (ROOT / name).read_text()).replace("_", " ").replace("-", " ")
    present = [
        word for word in words if word.never.search(whole) and not any(fnmatch(name, pattern) for pattern in word.files)
    ]
    if not present:
        return
    for number, text in enumerate(whole.splitlines(), 1):
        for word in present:
            rest = word.allow.sub(" ", text) if word.allow else text
            for match in word.never.finditer(rest):
                yield number, match[0], word.say


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", help="files or folders to check (default: all)")
    parser.add_argument("--count", action="store_true", help="only count the matches of each file")
    options = parser.parse_args()
    words = read_words()
    counts: Counter[str] = Counter()
    for name in list_files(options.paths):
        for number, match, say in find(words, name):
            counts[name] += 1
            if not options.count:
                print(f"{name}:{number}: {match!r}: say {say}")
    if options.count:
        for name, count in counts.most_common():
            print(f"{count:5d} {name}")
    print(f"{counts.total()} words to replace in {len(counts)} files", file=sys.stderr)
    return int(bool(counts))


def _is_checked(name: str) -> bool:
    path = ROOT / name
    return (
        name not in OWN_FILES
        and path.suffix in SUFFIXES
        and "/migrations/" not in name
        and not name.startswith("docs/openapi/")
        and path.is_file()
    )


if __name__ == "__main__":
    raise SystemExit(main())
