from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from management.bootstrap.declaration import Declaration, InvalidDeclaration, read_declaration
from management.bootstrap.document import InvalidDocument, read_document_file
from management.bootstrap.plan import BOOTSTRAP, BootstrapStep, PlanRejected, apply_declaration, build_plan
from management.management.operator_command import OperatorCommand, unusable_database


class Command(OperatorCommand):
    help = (
        "Bootstrap the catalog: create the default project, accept the terms of use (the Apache License 2.0) for the "
        "operator, and appoint an administrator. With --file, create the administrators, projects and warehouses that "
        "a file declares. May be run at any time: what exists as declared is left unchanged. Exit status 1 if a "
        "change fails."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--admin", metavar="USER_ID", help="user id of the administrator, such as oidc~alice")
        what.add_argument("--file", metavar="FILE", help="a declaration in YAML or JSON; - for standard input")
        about = parser.add_argument_group("properties of the administrator")
        about.add_argument(
            "--operator",
            action="store_true",
            help="an automation user with the operator role, which has more permissions",
        )
        about.add_argument("--name", help="name to display")
        about.add_argument("--email", help="email address to display")
        about.add_argument("--user-type", choices=["human", "application"], help="default: human")
        parser.add_argument("--dry-run", action="store_true", help="change nothing, print what would change")
        parser.add_argument("--json", action="store_true", help="print the changes as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        steps: list[BootstrapStep] = []
        problems: list[str] = []
        cause: DatabaseError | None = None
        try:
            declaration = _declaration(options)
            if options["dry_run"]:
                steps = build_plan(declaration)
            else:
                apply_declaration(declaration, steps.append)
        except (InvalidDeclaration, PlanRejected) as error:
            problems = error.problems
        except InvalidDocument as error:
            problems = [str(error)]
        except DatabaseError as error:
            problems = [str(unusable_database() or f"the database: {error}")]
            cause = error
        self._print(steps, problems, options)
        if problems:
            raise CommandError("\n".join(problems)) from cause

    def _print(self, steps: list[BootstrapStep], problems: list[str], options: dict[str, Any]) -> None:
        if options["json"]:
            changes = [{"path": step.path, "action": step.action, "change": step.description} for step in steps]
            result = {"dry-run": options["dry_run"], "changed": bool(steps), "steps": changes, "problems": problems}
            self.print_json(result)
        elif options["file"] is None and not options["dry_run"]:
            if not problems:
                self._print_bootstrap(steps, options["admin"], is_operator=options["operator"])
        else:
            leading = "would" if options["dry_run"] else "done:"
            for step in steps:
                self.stdout.write(f"{leading} {step.description}")
            if not steps and not problems:
                self.stdout.write("Everything is as declared.")

    def _print_bootstrap(self, steps: list[BootstrapStep], admin: str | None, *, is_operator: bool) -> None:
        is_new = any(step.action == BOOTSTRAP for step in steps)
        self.stdout.write("The catalog is bootstrapped." if is_new else "The catalog is already bootstrapped.")
        if admin is not None:
            already = "" if steps else "already "
            self.stdout.write(f"{admin} is {already}its {'operator' if is_operator else 'administrator'}.")


def _declaration(options: dict[str, Any]) -> Declaration:
    about = {"user-name": options["name"], "user-email": options["email"], "user-type": options["user_type"]}
    given = {member: value for member, value in about.items() if value is not None}
    if options["admin"] is None:
        if given or options["operator"]:
            raise InvalidDeclaration(["--operator, --name, --email and --user-type require --admin"])
        return read_declaration({} if options["file"] is None else read_document_file(options["file"]))
    administrator = {"user-id": options["admin"], "is-operator": options["operator"], **given}
    return read_declaration({"administrators": [administrator]})
