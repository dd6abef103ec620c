from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0004_access_token_not_after")]

    operations = [
        migrations.AlterField(
            "securable",
            "type",
            models.CharField(
                choices=[
                    ("server", "Server"),
                    ("project", "Project"),
                    ("warehouse", "Warehouse"),
                    ("namespace", "Namespace"),
                    ("table", "Table"),
                    ("view", "View"),
                    ("generic-table", "Generic Table"),
                    ("role", "Role"),
                    ("tag", "Tag"),
                    ("user", "User"),
                ],
                max_length=16,
            ),
        ),
    ]
