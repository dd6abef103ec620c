from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from events.models import DeadLetter
from events.selectors.sinks import SinkState, get_sink_for, list_dead_letters_for, list_sinks_for
from events.services.sinks import (
    Start,
    delete_dead_letters,
    pause_sink,
    redeliver_dead_letters,
    replay_sink,
    resume_sink,
    send_test_event,
    skip_event,
)
from icekeeper.kernel.http.paging import Page
from management.api.event_sinks.serializers import DeadLetterResponse, EventSinkResponse
from management.management.cli_lookup import resolve_event_sink
from management.management.operator_command import OperatorCommand, escape_unprintable, require_no_maintenance
from tenancy.actor import INTERNAL

ACTIONS: Final = (
    "status", "pause", "resume", "replay", "skip", "test", "dead-letters", "redeliver", "delete-dead-letters",
)  # fmt: skip
WITHOUT_SINK: Final = "status"
OF_LETTERS: Final = ("redeliver", "delete-dead-letters")
DEFAULT_LIMIT: Final = 100
MAX_ERROR_WIDTH: Final = 80
COLUMNS: Final = ("NAME", "TYPE", "STATUS", "POSITION", "LAG", "AGE", "DELIVERED", "DEAD LETTERS", "LAST ERROR")
NUMBERS: Final = frozenset({"POSITION", "LAG", "AGE", "DELIVERED", "DEAD LETTERS"})
"""Columns that are aligned to the right."""


class Command(OperatorCommand):
    help = (
        "Show and control the deliveries of events to sinks. `status` prints all sinks, or one: how many events they "
        "are behind (lag), the age of the oldest of these, and the last error if deliveries fail. `pause` stops the "
        "deliveries to a sink; `resume` continues them, also those of a sink that waits after a failure. `replay` "
        "delivers again from a position, a time or an end of the events that are kept, such as `events replay pipeline "
        "--time 2026-01-31T12:00:00Z`; a later position skips events. `skip` converts the next event, which the "
        "receiver does not accept, to a dead letter. `test` sends a test event at once. `dead-letters` prints the "
        "events that the receiver rejected; `redeliver` sends them again, and `delete-dead-letters` deletes them, all "
        "or those of --positions. Workers follow a change within seconds. Exit status 1 if the sink does not exist."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=ACTIONS)
        parser.add_argument("sink", nargs="?", metavar="SINK", help="name or id of the sink; optional with `status`")
        start = parser.add_mutually_exclusive_group()
        start.add_argument("--position", type=int, metavar="N", help="replay: deliver the events after this position")
        start.add_argument(
            "--time", metavar="TIME", help="replay: deliver the events since this time, and few earlier ones"
        )
        start.add_argument("--earliest", action="store_true", help="replay: deliver all events that are kept")
        start.add_argument("--latest", action="store_true", help="replay: skip all events so far")
        parser.add_argument(
            "--positions", type=int, nargs="+", metavar="N", help="of the dead letters to send again or delete"
        )
        parser.add_argument(
            "--limit", type=int, default=DEFAULT_LIMIT, help=f"maximum number of dead letters ({DEFAULT_LIMIT})"
        )
        parser.add_argument("--json", action="store_true", help="print JSON, one object per line")

    def handle(self, *args: Any, **options: Any) -> None:
        action = options["action"]
        start = _start_of(options)
        if (action == "replay") != (start is not None):
            raise CommandError(
                "`replay` needs one of --position, --time, --earliest and --latest; other actions take none of them"
            )
        if options["positions"] is not None and action not in OF_LETTERS:
            raise CommandError(f"--positions is for {' and '.join(f'`{each}`' for each in OF_LETTERS)}")
        if options["sink"] is None:
            if action != WITHOUT_SINK:
                raise CommandError(f"`{action}` needs the name or id of a sink")
            self._print_states(list_sinks_for(actor=INTERNAL), options)
            return
        sink = resolve_event_sink(options["sink"])
        if action == "status":
            self._print_states([get_sink_for(actor=INTERNAL, sink_id=sink.pk)], options)
        elif action == "dead-letters":
            self._print_letters(sink.pk, options)
        else:
            require_no_maintenance("nothing is changed")
            if start is not None:
                position = replay_sink(actor=INTERNAL, sink_id=sink.pk, start=start)
                content, sentence = {"position": position}, f"deliveries begin after position {position}."
            else:
                content, sentence = _change(action, sink.pk, options["positions"])
            self.print_result(options, {"sink": str(sink.pk), **content}, f"{sink.name}: {sentence}")

    def _print_states(self, states: Sequence[SinkState], options: dict[str, Any]) -> None:
        if options["json"]:
            for state in states:
                self.print_json(EventSinkResponse(state).data)
            return
        if not states:
            self.stdout.write("There are no event sinks.")
            return
        for line in _table([COLUMNS, *(_cells(state) for state in states)]):
            self.stdout.write(line)

    def _print_letters(self, sink_id: UUID, options: dict[str, Any]) -> None:
        if options["limit"] < 1:
            raise CommandError("--limit takes 1 or more")
        page = Page("dead-letters", None, options["limit"])
        letters, next_page = list_dead_letters_for(actor=INTERNAL, sink_id=sink_id, page=page)
        for letter in letters:
            if options["json"]:
                self.print_json(DeadLetterResponse(letter).data)
            else:
                self.stdout.write("\t".join(escape_unprintable(cell) for cell in _letter_cells(letter)))
        if next_page is not None:
            self.stderr.write("There are more dead letters: raise --limit")


def _change(action: str, sink_id: UUID, positions: list[int] | None) -> tuple[dict[str, int], str]:
    """Change something, and return the result as JSON and as a sentence."""
    if action == "skip":
        letter = skip_event(actor=INTERNAL, sink_id=sink_id)
        return {"position": letter.position}, f"the event at position {letter.position} is a dead letter now."
    if action in OF_LETTERS:
        change_letters, done = LETTER_CHANGES[action]
        count = change_letters(actor=INTERNAL, sink_id=sink_id, positions=positions)
        return {"count": count}, f"dead letters {done}: {count}."
    change, sentence = CHANGES[action]
    change(actor=INTERNAL, sink_id=sink_id)
    return {}, sentence


CHANGES: Final[dict[str, tuple[Callable[..., None], str]]] = {
    "pause": (pause_sink, "deliveries are paused."),
    "resume": (resume_sink, "deliveries continue."),
    "test": (send_test_event, "the receiver accepted the test event."),
}
LETTER_CHANGES: Final[dict[str, tuple[Callable[..., int], str]]] = {
    "redeliver": (redeliver_dead_letters, "to be sent again"),
    "delete-dead-letters": (delete_dead_letters, "deleted"),
}


def _start_of(options: dict[str, Any]) -> Start | None:
    """Return the start that the options name; None without one. Raises `CommandError` for an invalid time."""
    if options["earliest"] or options["latest"]:
        return "earliest" if options["earliest"] else "latest"
    if options["time"] is None:
        position: int | None = options["position"]
        return position
    try:
        at = datetime.fromisoformat(options["time"])
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not 1970 <= at.year < 9000:  # noqa: PLR2004 - years
        raise CommandError("--time takes a time with a zone, such as 2026-01-31T12:00:00Z")
    return at


def _cells(state: SinkState) -> tuple[str, ...]:
    sink = state.sink
    error = escape_unprintable(sink.last_error) if sink.failures else ""
    return (
        escape_unprintable(sink.name),
        sink.type,
        state.status.value,
        str(sink.position),
        str(state.lag),
        f"{state.lag_seconds:.0f} s",
        str(sink.delivered),
        str(state.dead_letters),
        error if len(error) <= MAX_ERROR_WIDTH else f"{error[:MAX_ERROR_WIDTH]}...",
    )


def _letter_cells(letter: DeadLetter) -> list[str]:
    again = "to be sent again" if letter.is_redelivered else ""
    at = f"{letter.at:%Y-%m-%d %H:%M:%S} UTC"
    return [str(letter.position), at, letter.type, letter.object_key, again, letter.error]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns, two spaces between them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for name, cell, width in zip(rows[0], row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
