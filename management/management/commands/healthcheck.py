from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.json.strict import write_json
from icekeeper.server.database_checks import UnusableDatabase, check_databases

LONGEST_WAIT = 10.0
LARGEST_ANSWER = 10_000


class Command(BaseCommand):
    help = (
        "Ask whether this deployment is well, for the health check of a container: exit status 0 if so, else 1 and one "
        "line on stderr for each thing that is not. Without options it asks GET /health of the server on this machine "
        "(LAKEKEEPER__BIND_IP, LAKEKEEPER__LISTEN_PORT)."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-a", "--all", action="store_true", help="everything below")
        parser.add_argument("-d", "--check-db", action="store_true", help="the databases, from this process")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
        parser.add_argument("-s", "--check-server", action="store_true", help="the server, by GET /health")

    def handle(self, *args: Any, **options: Any) -> None:
        asks_databases = options["all"] or options["check_db"]
        asks_server = options["all"] or options["check_server"] or not asks_databases
        problems = []
        if asks_databases:
            try:
                check_databases()
            except UnusableDatabase as refusal:
                problems.append(str(refusal))
        if asks_server:
            problems += _problems_of_the_server()
        if options["json"]:
            self.stdout.write(write_json({"ok": not problems, "problems": problems}).decode())
        if problems:
            raise CommandError("\n".join(problems))
        if not options["json"]:
            self.stdout.write("ok")


def _problems_of_the_server() -> list[str]:
    conf = settings.ICEKEEPER
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(conf.bind_ip, conf.bind_ip)  # noqa: S104
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    address = f"http://{host}:{conf.listen_port}/health"
    nearby = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
    try:
        with nearby.open(address, timeout=LONGEST_WAIT):
            return []
    except urllib.error.HTTPError as error:
        said = error.read(LARGEST_ANSWER).decode(errors="replace")
        return [f"{address} answered {error.code}: {said}"]
    except (OSError, ValueError) as error:
        return [f"{address} does not answer: {error}"]
