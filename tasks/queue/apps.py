from django.apps import AppConfig


class QueueConfig(AppConfig):
    name = "tasks.queue"
    label = "tasks"
