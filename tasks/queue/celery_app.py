"""The Celery app: its queues and the connection to the broker.

Celery takes 0.4 s to import: only its own processes and the thread that sends messages import this module.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from celery import Celery
from celery.exceptions import CeleryError
from django.conf import settings
from kombu import Exchange, Queue
from kombu.exceptions import KombuError
from kombu.exceptions import OperationalError as BrokerUnreachable

from tasks.models import Task
from tasks.queue.celery_messages import NoBroker

CELERY_QUEUES: Final = (
    Task.Queue.SOFT_DELETION.value,
    Task.Queue.TABULAR_PURGE.value,
    Task.Queue.TASK_LOG_CLEANUP.value,
    Task.Queue.STATISTICS.value,
    Task.Queue.FILE_STATISTICS.value,
)
"""The queues of tasks that Celery workers execute; a queue of the broker has the same name."""

CONNECT_SECONDS: Final = 3.0
SOCKET_SECONDS: Final = 5.0


def task_name(queue: str) -> str:
    """Return the name of the Celery task that executes the due tasks of a queue."""
    return f"icekeeper.{queue}"


@cache
def celery_app() -> Celery:
    """Return the app of this process. `ICEKEEPER__CELERY__BROKER_URL` must be set."""
    url = settings.ICEKEEPER.celery.broker_url
    if url is None:
        raise ValueError("ICEKEEPER__CELERY__BROKER_URL is not set")
    app = Celery("icekeeper", broker=url.get_secret_value(), set_as_current=True)
    exchange = Exchange("icekeeper", type="direct")
    app.conf.update(
        accept_content=["json"],
        beat_scheduler="tasks.workers.celery_beat:TaskScheduler",
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=CONNECT_SECONDS,
        # These are for senders; a worker connects again without end.
        broker_transport_options={
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": SOCKET_SECONDS,
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0.1,
            "interval_max": 0.1,
        },
        task_acks_late=False,  # a task whose worker dies is executed after its lease, not when a message returns
        task_create_missing_queues=False,  # a misspelt `-Q` is an error
        task_default_queue=CELERY_QUEUES[0],
        task_ignore_result=True,
        task_queues=[Queue(name, exchange, routing_key=name) for name in CELERY_QUEUES],
        task_routes={task_name(name): {"queue": name} for name in CELERY_QUEUES},
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
    )
    return app


def send_message(queue: str) -> None:
    """Let a Celery worker look for due tasks of `queue`. Raises `NoBroker`."""
    try:
        celery_app().send_task(task_name(queue), queue=queue, retry=False, ignore_result=True)
    except (BrokerUnreachable, KombuError, CeleryError, OSError) as error:
        raise NoBroker(f"{type(error).__name__}: {error}") from error
    except Exception as error:  # noqa: BLE001 - such as ValueError about the URL, whose text must not be logged
        raise NoBroker(type(error).__name__) from None
