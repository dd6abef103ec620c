from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from icekeeper.kernel.json.strict import write_json
from management.bootstrap.apply import apply
from management.bootstrap.declaration import Declaration, WrongDeclaration, read_declaration
from management.bootstrap.document import BadDocument, read_document
from management.bootstrap.plan import BOOTSTRAP, Refused, Step, make_plan


class Command(BaseCommand):
    help = (
        "Bootstrap the catalog: make the default project and accept the terms of use (the Apache License 2.0) in the "
        "name of the operator, and name its administrator. With --file, make administrators, projects and warehouses "
        "as a file declares them. May be called again at any time: what is so already is left alone. Exit status 1 "
        "when something was refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--admin", metavar="USER_ID", help="who administrates the server, such as oidc~alice")
        what.add_argument("--file", metavar="FILE", help="a declaration in YAML or JSON; - for standard input")
        about = parser.add_argument_group("about the administrator")
        about.add_argument("--operator", action="store_true", help="a program that sets things up: may do more")
        about.add_argument("--name", help="for people who see the user in lists")
        about.add_argument("--email", help="likewise")
        about.add_argument("--user-type", choices=["human", "application"], help="default: human")
        parser.add_argument("--dry-run", action="store_true", help="change nothing, tell what would be changed")
        parser.add_argument("--json", action="store_true", help="print what was (or would be) changed as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        steps: list[Step] = []
        problems: list[str] = []
        try:
            declaration = _declaration(options)
            if options["dry_run"]:
                steps = make_plan(declaration)
            else:
                apply(declaration, steps.append)
        except (WrongDeclaration, Refused) as refusal:
            problems = refusal.problems
        except BadDocument as refusal:
            problems = [str(refusal)]
        except DatabaseError as error:
            problems = [f"the database: {error}"]
        self._tell(steps, problems, options)
        if problems:
            raise CommandError("\n".join(problems))

    def _tell(self, steps: list[Step], problems: list[str], options: dict[str, Any]) -> None:
        if options["json"]:
            told = [{"path": step.path, "action": step.action, "change": step.sentence} for step in steps]
            answer = {"dry-run": options["dry_run"], "changed": bool(steps), "steps": told, "problems": problems}
            self.stdout.write(write_json(answer).decode())
        elif options["file"] is None and not options["dry_run"]:
            if not problems:
                self._tell_bootstrap(steps, options["admin"], is_operator=options["operator"])
        else:
            leading = "would" if options["dry_run"] else "done:"
            for step in steps:
                self.stdout.write(f"{leading} {step.sentence}")
            if not steps and not problems:
                self.stdout.write("Everything is as declared: nothing to do.")

    def _tell_bootstrap(self, steps: list[Step], admin: str | None, *, is_operator: bool) -> None:
        is_new = any(step.action == BOOTSTRAP for step in steps)
        self.stdout.write("The catalog is bootstrapped." if is_new else "The catalog is bootstrapped already.")
        if admin is not None:
            already = "" if steps else " already"
            self.stdout.write(f"{admin} is its {'operator' if is_operator else 'administrator'}{already}.")


def _declaration(options: dict[str, Any]) -> Declaration:
    about = {"user-name": options["name"], "user-email": options["email"], "user-type": options["user_type"]}
    given = {member: value for member, value in about.items() if value is not None}
    if options["admin"] is None:
        if given or options["operator"]:
            raise WrongDeclaration(["--operator, --name, --email and --user-type are about --admin"])
        return read_declaration({} if options["file"] is None else read_document(options["file"]))
    administrator = {"user-id": options["admin"], "is-operator": options["operator"], **given}
    return read_declaration({"administrators": [administrator]})
