"""Patterns for names and values: a part of regular expressions that takes linear time, whatever the text.

A pattern is a sequence of items, each a character, `.` (any character), `[a-z_]`, `[^0-9]`, `\\d`, `\\w` or an escaped
character, and after it `?`, `*`, `+`, `{3}` or `{1,8}`. There are no groups and no alternatives; it matches the whole
text. All positions in the pattern are followed at once, as bits of one number, so no backtracking can hang a request.
Simple patterns and short texts are left to `re`, which is faster and takes at most quadratic time for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

MAX_PATTERN_LENGTH: Final = 256
"""Characters of a pattern."""

MAX_ITEMS: Final = 256
"""Items after `{m,n}` is written out."""

MAX_TEXT_LENGTH: Final = 1024
"""Characters of a text; a longer one matches no pattern."""

MAX_SIMPLE_QUANTIFIERS: Final = 2
"""Quantifiers of a simple pattern that do not stand for a fixed number."""

MAX_SIMPLE_LENGTH: Final = 64
"""Characters of a text that `re` matches."""

_REPEAT: Final = re.compile(r"\{([0-9]{1,3})(?:,([0-9]{1,3}))?\}")
_CLASSES: Final = {"d": "[0-9]", "w": "[A-Za-z0-9_]"}
_SPECIAL: Final = frozenset("()|*+?{}^$")
_HINTS: Final = {
    **dict.fromkeys("^$", "a pattern matches the whole text; "),
    **dict.fromkeys("()|", "list several patterns instead; "),
}
"""What to do instead of writing a special character of other regular expressions."""

MAX_DESCRIPTION_LENGTH: Final = 200
"""Characters of patterns in a message, if there are several."""


class InvalidPattern(ValueError):
    """The message says what is wrong with the pattern."""


class SafePattern:
    """A pattern that is compiled once. Raises `InvalidPattern`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._length = 0
        self._bits: dict[re.Pattern[str], int] = {}
        """The positions of each item, as bits; equal items are one."""
        self._optional = self._repeated = 0
        """The items that may be absent, and those that may occur more than once, as bits."""
        self._masks: dict[str, int] = {}
        if len(text) > MAX_PATTERN_LENGTH:
            raise InvalidPattern(f"longer than {MAX_PATTERN_LENGTH} characters")
        position, quantifiers, pieces = 0, 0, list[str]()
        while position < len(text):
            item, start = _read_item(text, position)
            position = self._add(item, text, start)
            pieces += [item.pattern, text[start:position]]
            quantifiers += (position > start and text[start] != "{") or "," in text[start:position]
        self._end = 1 << self._length
        self._simple = re.compile("".join(pieces), re.DOTALL) if quantifiers <= MAX_SIMPLE_QUANTIFIERS else None

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        if len(text) > MAX_TEXT_LENGTH:
            return False
        if self._simple is not None and len(text) <= MAX_SIMPLE_LENGTH:
            return self._simple.fullmatch(text) is not None
        return self.follow(text)

    def follow(self, text: str) -> bool:
        """Do what `matches` does, in linear time for every pattern and text."""
        states = self._skip_optional(1)
        for character in text:
            mask = self._mask(character)
            accepted = states & mask
            # After an item that accepted the character: the next one, or itself again.
            states = self._skip_optional((accepted << 1) | (accepted & self._repeated))
            if not states:
                return False
        return bool(states & self._end)

    def _add(self, item: re.Pattern[str], text: str, position: int) -> int:
        """Add an item with what stands after it; return the position behind that."""
        least, most, position = _read_quantifier(text, position)
        copies = max(least, 1) if most is None else most
        for number in range(copies):
            bit = 1 << self._length
            self._length += 1
            self._bits[item] = self._bits.get(item, 0) | bit
            if number >= least:
                self._optional |= bit
            if most is None and number == copies - 1:
                self._repeated |= bit
            if self._length > MAX_ITEMS:
                raise InvalidPattern(f"more than {MAX_ITEMS} items")
        return position

    def _skip_optional(self, states: int) -> int:
        """Add the positions that are reached without a character, through runs of optional items of any length.

        The sum carries from the lowest position of a run to the item after the run, which is not optional.
        """
        optional = self._optional
        return states | (((states & optional) + optional) ^ optional)

    def _mask(self, character: str) -> int:
        """Return the items that accept a character, as bits."""
        mask = self._masks.get(character)
        if mask is None:
            mask = sum(bits for item, bits in self._bits.items() if item.fullmatch(character))
            if len(self._masks) < MAX_TEXT_LENGTH:
                self._masks[character] = mask
        return mask


def _read_item(text: str, position: int) -> tuple[re.Pattern[str], int]:
    character = text[position]
    if character == "[":
        return _read_set(text, position)
    if character == "\\":
        if position + 1 == len(text):
            raise InvalidPattern("ends with a backslash")
        escaped = text[position + 1]
        if escaped.isalnum() and escaped not in _CLASSES:
            raise InvalidPattern(f"\\{escaped} is not supported")
        return _compile(_CLASSES.get(escaped, re.escape(escaped))), position + 2
    if character in _SPECIAL:
        hint = _HINTS.get(character, "")
        raise InvalidPattern(f"{character} is not supported here: {hint}write \\{character} for the character itself")
    return _compile("." if character == "." else re.escape(character)), position + 1


def _read_set(text: str, position: int) -> tuple[re.Pattern[str], int]:
    end = text.find("]", position + 2)
    if end < 0:
        raise InvalidPattern("[ without ]")
    inner = text[position + 1 : end]
    if "[" in inner or "\\" in inner or "&&" in inner or "||" in inner or "~~" in inner or "--" in inner:
        raise InvalidPattern("a set in [] has characters and ranges such as a-z, without backslashes")
    return _compile(f"[{inner}]"), end + 1


def _compile(item: str) -> re.Pattern[str]:
    try:
        return re.compile(item, re.DOTALL)
    except re.error as error:
        raise InvalidPattern(str(error)) from None


def _read_quantifier(text: str, position: int) -> tuple[int, int | None, int]:
    """Return the least and greatest number of the item (None: any), and the position behind the quantifier."""
    if position < len(text) and text[position] in "?*+":
        least, most = {"?": (0, 1), "*": (0, None), "+": (1, None)}[text[position]]
        return least, most, position + 1
    repeat = _REPEAT.match(text, position)
    if repeat is None:
        return 1, 1, position
    least = int(repeat[1])
    most = least if repeat[2] is None else int(repeat[2])
    if most < least or most == 0:
        raise InvalidPattern(f"{repeat[0]} is not a range")
    return least, most, repeat.end()


def compile_patterns(texts: list[str]) -> Callable[[str], bool]:
    """Return a function that checks whether a text matches one of the patterns. Raises `InvalidPattern`."""
    compiled = [SafePattern(text) for text in texts]
    if len(compiled) == 1:
        return compiled[0].matches

    def matches(text: str) -> bool:
        return any(each.matches(text) for each in compiled)

    return matches


def describe_patterns(texts: list[str]) -> str:
    """Return the patterns for a message that says what a text must match, such as `[a-z]+ or [A-Z]{3}`.

    Of many or long ones it has the first, and the number of the others.
    """
    shown = texts[:1]
    for text in texts[1:]:
        if sum(map(len, shown)) + len(text) > MAX_DESCRIPTION_LENGTH:
            break
        shown.append(text)
    more = len(texts) - len(shown)
    shown += [f"{more} other pattern{'s' if more > 1 else ''}"] if more else []
    described = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
    return "".join(each if each.isprintable() else " " for each in described)
