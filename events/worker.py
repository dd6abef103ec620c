"""The dispatcher of a worker process."""

from __future__ import annotations

from functools import partial

from events.delivery.dispatcher import Dispatcher
from events.delivery.opening import open_sink_of
from events.services.sinks import create_sinks_of_settings
from events.sinks.server_configuration import sinks_of_settings
from tenancy.actor import INTERNAL
from tenancy.changes.retention import delete_old_events
from tenancy.maintenance import is_read_only_now
from tenancy.selectors.projects import server_id


def dispatcher_of_process() -> Dispatcher:
    """Return the dispatcher of this process, for the sinks of the database and of its settings. Not in maintenance."""
    return Dispatcher(
        server_id=server_id,
        open_sink=open_sink_of,
        from_settings=sinks_of_settings().keys(),
        create_rows=create_sinks_of_settings,
        delete_old_events=partial(delete_old_events, actor=INTERNAL),
        is_paused=is_read_only_now,
    )
