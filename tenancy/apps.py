from django.apps import AppConfig


class TenancyConfig(AppConfig):
    name = "tenancy"

    def ready(self) -> None:
        from tenancy.authn import providers  # noqa: F401 - registers its checks
        from tenancy.selectors.visible_rows import set_visibility_filters

        set_visibility_filters()
