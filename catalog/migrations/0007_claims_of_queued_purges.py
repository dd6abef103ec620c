from django.db import migrations


def claim_locations(apps, schema_editor):
    """Purges that were queued before they held locations: from now on what they hold is what they delete."""
    task, claim = apps.get_model("tasks", "Task"), apps.get_model("catalog", "LocationClaim")
    warehouses = set(apps.get_model("storage", "Warehouse").objects.values_list("pk", flat=True))
    held = set(claim.objects.filter(task_id__isnull=False).values_list("task_id", flat=True))
    for queued in task.objects.filter(queue="tabular_purge").iterator():
        if queued.pk in held or queued.warehouse_id not in warehouses:
            continue
        locations = [queued.payload.get("tabular_location"), *queued.payload.get("former_locations", [])]
        claim.objects.bulk_create(
            [
                claim(warehouse_id=queued.warehouse_id, task_id=queued.pk, location=location)
                for location in dict.fromkeys(locations)
                if location
            ]
        )


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0006_namespace_location"),
        ("storage", "0001_initial"),
        ("tasks", "0002_leases"),
    ]

    operations = [migrations.RunPython(claim_locations, migrations.RunPython.noop)]
