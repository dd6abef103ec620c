"""Events have positions, which order all of them; those that exist keep the order of the events of each object."""

import icekeeper.kernel.ids
from django.db import migrations, models

_COPY = """
INSERT INTO tenancy_outboxevent (event_id, {columns})
SELECT id, {columns} FROM (
  SELECT *, max({id_text}) OVER (PARTITION BY object_key ORDER BY sequence) AS place FROM tenancy_oldoutboxevent) AS e
 ORDER BY place, object_key, sequence
"""
"""Ids grow with time, but those of two transactions can be in another order than the sequences of their object."""

_COLUMNS = (
    "object_key, sequence, type, at, public_id, names, project_id, warehouse_id, actor, assumed_role, request_id,"
    " event_count, event_index, data"
)


def copy_events(apps, schema_editor):
    id_text = "id::text" if schema_editor.connection.vendor == "postgresql" else "id"
    schema_editor.execute(_COPY.format(columns=_COLUMNS, id_text=id_text))


def create_state(apps, schema_editor):
    events = apps.get_model("tenancy", "OutboxEvent").objects.using(schema_editor.connection.alias)
    last = events.order_by("-position").values_list("position", flat=True).first() or 0
    states = apps.get_model("tenancy", "OutboxState").objects.using(schema_editor.connection.alias)
    states.create(id=1, published_through=last, deleted_through=0)


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0008_events_by_warehouse"),
    ]

    operations = [
        migrations.CreateModel(
            name="OutboxState",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "published_through",
                    models.BigIntegerField(
                        default=0, help_text="No event with this position or a lower one can appear any more."
                    ),
                ),
                (
                    "deleted_through",
                    models.BigIntegerField(default=0, help_text="Events up to this position were deleted."),
                ),
            ],
            options={
                "verbose_name": "state of the outbox",
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="outbox_state_once")],
            },
        ),
        migrations.RemoveIndex(model_name="outboxevent", name="outbox_event_by_warehouse"),
        migrations.RemoveConstraint(model_name="outboxevent", name="outbox_event_in_order"),
        migrations.RenameModel(old_name="OutboxEvent", new_name="OldOutboxEvent"),
        migrations.CreateModel(
            name="OutboxEvent",
            fields=[
                (
                    "position",
                    models.BigAutoField(
                        help_text="Order of all events; numbers can be missing.", primary_key=True, serialize=False
                    ),
                ),
                (
                    "event_id",
                    models.UUIDField(
                        default=icekeeper.kernel.ids.new_id,
                        help_text="UUIDv7; the id of the CloudEvent.",
                        verbose_name="event ID",
                    ),
                ),
                (
                    "object_key",
                    models.CharField(
                        help_text="Type and internal id of the object, such as table:UUID.", max_length=300
                    ),
                ),
                (
                    "sequence",
                    models.BigIntegerField(
                        help_text="Number among the events of the object: 1, 2, 3, without gaps."
                    ),
                ),
                ("type", models.CharField(help_text="Type of the CloudEvent, such as createTable.", max_length=64)),
                ("at", models.DateTimeField()),
                (
                    "public_id",
                    models.CharField(help_text="The id of the object that clients see.", max_length=255),
                ),
                (
                    "names",
                    models.TextField(
                        default="[]", help_text="JSON list: levels of the namespace, then the name of the object."
                    ),
                ),
                ("project_id", models.CharField(blank=True, default="", max_length=128)),
                ("warehouse_id", models.UUIDField(null=True)),
                ("actor", models.CharField(help_text="User id, anonymous or internal.", max_length=255)),
                ("assumed_role", models.UUIDField(null=True)),
                (
                    "request_id",
                    models.CharField(
                        blank=True, default="", help_text="The request's x-request-id.", max_length=128
                    ),
                ),
                (
                    "event_count",
                    models.IntegerField(default=1, help_text="Number of events of the same transaction."),
                ),
                ("event_index", models.IntegerField(default=0, help_text="Position among them, from 0.")),
                (
                    "data",
                    models.TextField(help_text="The data of the CloudEvent, as JSON; without secrets.", null=True),
                ),
            ],
            options={"verbose_name": "outbox event"},
        ),
        migrations.RunPython(copy_events, migrations.RunPython.noop, elidable=False),
        migrations.RunPython(create_state, migrations.RunPython.noop, elidable=False),
        migrations.DeleteModel(name="OldOutboxEvent"),
        migrations.AddIndex(
            model_name="outboxevent",
            index=models.Index(
                fields=["warehouse_id", "position"],
                condition=models.Q(("warehouse_id__isnull", False)),
                name="outbox_event_by_warehouse",
            ),
        ),
        migrations.AddIndex(
            model_name="outboxevent",
            index=models.Index(fields=["project_id", "position"], name="outbox_event_by_project"),
        ),
        migrations.AddConstraint(
            model_name="outboxevent",
            constraint=models.UniqueConstraint(fields=("object_key", "sequence"), name="outbox_event_in_order"),
        ),
    ]
