"""Serves tests.server.urls without a check of the database: `python -m tests.server.run_bare`.

While the file `hold` is in its data folder, new workers stop after the fork; the file `held` reports one of them.
"""

import gc
import os
import time
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.server.bare_settings"

gc.disable()  # while modules are imported, as in `manage.py`

import django  # noqa: E402 - after the environment

django.setup()

from django.conf import settings  # noqa: E402 - after the set-up

from icekeeper.server.run import run_server  # noqa: E402

HOME = Path(os.environ["ICEKEEPER__DATA_DIR"])


def hold() -> None:
    while (HOME / "hold").exists():
        (HOME / "held").touch()
        time.sleep(0.01)


gc.freeze()
gc.enable()
os.register_at_fork(after_in_child=hold)
run_server(settings.ICEKEEPER, lambda _metrics: print("bound", flush=True))
