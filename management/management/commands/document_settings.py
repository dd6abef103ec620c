from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.conf.listing import describe_settings

HEAD = """# Configuration

<!-- Made by `make docs` from icekeeper/conf/: edit there. -->

Icekeeper reads its settings once, from environment variables. `LAKEKEEPER__*` have the names, meanings and defaults of
Lakekeeper (`ICEBERG_REST__*`, its older prefix, is read too); what only Icekeeper has is named `ICEKEEPER__*`. Parts of
a name are joined by two underscores.

A wrong value stops every command and names the variable, what it got and what it takes. So does a variable of
Lakekeeper that guards something which this version does not have (`CEDAR__*`, `ADMISSION_ENFORCE*`, ...), and one that
asks for events (`NATS_*`, `KAFKA_*`, `LOG_CLOUDEVENTS=true`), because this version publishes none. Any other unknown
variable is named in a warning when the server starts.

## Values

- Durations are written `30s`, `500ms`, `5m`, `1h`, `2d`, a bare number of seconds, or ISO-8601 (`PT30M`).
- Lists are written `a`, `a,b`, `"a","b"`, `[a,b]` or `["a","b"]`.
- One of several words is written in any case, with or without hyphens and underscores: `verify-full`, `VerifyFull`,
  `verify_full`.
- Settings whose names begin alike may be set together: `LAKEKEEPER__KV2={url="http://vault:8200",user=me}` sets
  `LAKEKEEPER__KV2__URL` and `LAKEKEEPER__KV2__USER`. Such values may hold each other and lists. Text with a comma or a
  bracket must be quoted, passwords too. Where a setting has a variable of its own as well, that one counts.
- An empty `LAKEKEEPER__*` variable counts as unset, so `OPENID_AUDIENCE=` and `OPENID_SCOPE=` require nothing of a
  token. An id is an entry even where what is set for it is empty: `OPENID_PROVIDERS__KC__URI=` is refused. An empty
  `ICEKEEPER__*` variable is refused.
- The embedded SQLite is used only where no variable names a PostgreSQL. An empty `PG_DATABASE_URL_WRITE` or `PG_HOST_W`
  is refused unless the other one has a value, and so are `PG_USER`, `PG_PASSWORD`, `PG_DATABASE`, `PG_PORT`,
  `PG_SCHEMA`, `PG_SSL_*`, `PG_HOST_R` and `PG_DATABASE_URL_READ` without either of the two.
- Blanks around a value are removed, but not those of secrets. A value of blanks alone is refused.
- `ALLOW_ORIGIN` takes `*`, `null` and origins as browsers send them, `https://app.example.com:8443`. A slash at the
  end is removed; a path or a wildcard is refused.
- One pair of quotes around a value, which compose files leave in, is removed: `"*"` and `'*'` are `*`. Between double
  quotes a backslash begins an escape: `\\"`, `\\\\`, `\\b`, `\\t`, `\\n`, `\\f`, `\\r`, `\\uXXXX` or `\\UXXXXXXXX`; any
  other one is refused. To keep the quotes of a value, a password for example, write `"\\"text\\""`.

## Settings

| Variable | Takes | Default | Effect |
|---|---|---|---|
"""


class Command(BaseCommand):
    help = "Write docs/configuration.md from the definitions of the settings, or check that it is up to date."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = (f"| `{d.variable}` | {d.takes} | {d.default} | {d.effect} |\n" for d in describe_settings())
        page = HEAD + "".join(rows)
        path = Path(settings.BASE_DIR) / "docs" / "configuration.md"
        if not options["check"]:
            path.write_text(page)
            self.stdout.write(f"Wrote {path.name}")
        elif not path.exists() or path.read_text() != page:
            raise CommandError(f"{path.name} is out of date: run `make docs`")
