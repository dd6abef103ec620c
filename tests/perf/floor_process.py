"""Serves the floors with the product's own HTTP server: the same worker class, settings and limits, another
program.

    python -m tests.perf.floor_process # reads the product's variables and FLOOR_DATABASE_URL
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from icekeeper.conf.environment import read_settings
from icekeeper.server.run import HttpServer
from tests.perf import floors


class Floors(HttpServer):
    def load(self) -> Callable[..., Any]:
        return floors.application


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    settings, _ = read_settings(os.environ)
    Floors(settings, lambda _metrics_port: None).run()
