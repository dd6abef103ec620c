from django.db import migrations, models


def bind_to_their_makers(apps, schema_editor):
    """Tokens that were made with another one of their user renew themselves no more; they keep the end that they have.

    A token that replaced itself by rotation was made with the one that it replaces, and is bound if that one is. Who
    was made with a token whose row is gone outlived it by 90 days, so was not bound to it.
    """
    AccessToken = apps.get_model("tenancy", "AccessToken")
    replaced = dict(AccessToken.objects.exclude(replaced_by=None).values_list("replaced_by_id", "pk"))
    there, bound = set(), set()
    for token in AccessToken.objects.order_by("created_at", "pk").iterator():
        there.add(token.pk)
        before, maker = replaced.get(token.pk), token.created_with
        is_of_another = maker in there and maker != before and token.created_by == token.user_id
        if is_of_another or before in bound:
            bound.add(token.pk)
            AccessToken.objects.filter(pk=token.pk).update(not_after=token.expires_at)


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0003_identities")]

    operations = [
        migrations.AddField("accesstoken", "not_after", models.DateTimeField(null=True)),
        migrations.RunPython(bind_to_their_makers, migrations.RunPython.noop, elidable=True),
    ]
