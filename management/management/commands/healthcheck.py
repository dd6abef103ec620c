from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from icekeeper.kernel.db.checks import UnusableDatabase, check_databases
from management.management.operator_command import OperatorCommand

TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 10_000


class Command(OperatorCommand):
    help = (
        "Check the health of this deployment, for example in the health check of a container: exit status 0 if "
        "healthy, else 1 with one line per problem on stderr. Without options it requests GET /health of the server on "
        "this machine (LAKEKEEPER__BIND_IP, LAKEKEEPER__LISTEN_PORT)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-a", "--all", action="store_true", help="all checks")
        parser.add_argument("-d", "--check-db", action="store_true", help="check the databases from this process")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument("-s", "--check-server", action="store_true", help="check the server with GET /health")

    def handle(self, *args: Any, **options: Any) -> None:
        checks_databases = options["all"] or options["check_db"]
        checks_server = options["all"] or options["check_server"] or not checks_databases
        problems = []
        if checks_databases:
            try:
                check_databases()
            except UnusableDatabase as error:
                problems.append(str(error))
        if checks_server:
            problems += _server_problems()
        if options["json"]:
            self.print_json({"ok": not problems, "problems": problems})
        if problems:
            raise CommandError("\n".join(problems))
        if not options["json"]:
            self.stdout.write("ok")


def _server_problems() -> list[str]:
    conf = settings.ICEKEEPER
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(conf.bind_ip, conf.bind_ip)  # noqa: S104
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    address = f"http://{host}:{conf.listen_port}/health"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
    try:
        with opener.open(address, timeout=TIMEOUT_SECONDS):
            return []
    except urllib.error.HTTPError as error:
        body = error.read(MAX_RESPONSE_BYTES).decode(errors="replace")
        return [f"{address} responded with status {error.code}: {body}"]
    except (OSError, ValueError) as error:
        return [f"{address} does not respond: {error}"]
