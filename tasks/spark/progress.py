"""Show on a terminal or in a log which step of a program runs, how long each took and what came of it."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TextIO, TypeVar

Run = TypeVar("Run")


class StepFailedError(Exception):
    """A step broke off or did not have its effect; the message is one line that names the step."""


class WrongResultError(Exception):
    """What a step left behind is not what it should have been."""


@dataclass(frozen=True)
class PipelineStep(Generic[Run]):
    """One step: what it is called, and the function that does it, checks its effect and says it in a few words."""

    title: str
    action: Callable[[Run], str]


def run_steps(steps: Sequence[PipelineStep[Run]], run: Run, *, out: TextIO) -> None:
    """Run the steps in order, handing `run` to each; raises `StepFailedError` at the first that fails."""
    width = max(len(step.title) for step in steps)
    for number, step in enumerate(steps, start=1):
        position = f"[{number:>{len(str(len(steps)))}}/{len(steps)}]"
        out.write(f"{position} {step.title:<{width}} ")
        out.flush()
        started = time.monotonic()
        try:
            result = step.action(run)
        except Exception as error:
            out.write("FAILED\n")
            out.flush()
            raise StepFailedError(f"step {position} {step.title}: {one_line(error)}") from error
        out.write(f"{time.monotonic() - started:6.1f} s  {result}\n")
        out.flush()


def check(fact: object, otherwise: str) -> None:
    """Raise `WrongResultError` with the given text unless `fact` is true."""
    if not fact:
        raise WrongResultError(otherwise)


def one_line(error: BaseException) -> str:
    """Say an error in one line; for one that comes from Java that is its message and its innermost cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    message = lines[0].removeprefix(": ") if lines else type(error).__name__
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if causes and causes[-1] not in message:
        message = f"{message} (cause: {causes[-1]})"
    return re.sub(r"\s+", " ", message)
