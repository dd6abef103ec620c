from django.db import migrations


def make_server(apps, schema_editor):
    """The one row about this deployment, and the root of everything that rights hang on."""
    Server = apps.get_model("tenancy", "Server")
    Securable = apps.get_model("tenancy", "Securable")
    server, _ = Server.objects.get_or_create(singleton=1)
    own_id = f"server:{server.server_id}"
    Securable.objects.get_or_create(
        id=own_id, defaults={"type": "server", "object_id": str(server.server_id), "path": f"{own_id}/"}
    )


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0001_initial")]

    operations = [migrations.RunPython(make_server, migrations.RunPython.noop)]
