"""Names of the environment variables: which settings have our prefix, and which have Lakekeeper's."""

from __future__ import annotations

from collections.abc import Sequence

from icekeeper.conf.groups import AuditSettings

LAKEKEEPER_PREFIX, ICEKEEPER_PREFIX = "LAKEKEEPER__", "ICEKEEPER__"

OWN_FIELDS = frozenset(
    {
        "data_dir",
        "secret_key",
        "secret_key_fallbacks",
        "contract_verifiers",
        "local_storage_root",
        "log_level",
        "pg_encryption_old_keys",
        "pg_prepare_statements",
        "pg_database_url_direct",
        "metadata_inline_limit",
        "metadata_file_limit",
        "metadata_cache_bytes",
        "metrics_report_retention",
        "metrics_reports_per_day",
        "metrics_day_retention",
        "endpoint_stat_retention",
        "task_statistics_workers",
        "task_file_statistics_workers",
        "access_tokens",
        "access_token_default_lifetime",
        "access_token_max_lifetime",
        "oauth_token_lifetime",
        "oauth_session_lifetime",
        "server",
        "storage",
        "authentication",
        "openid_claims",
        "kubernetes",
        "vault",
        "openfga_connection",
        "events",
        "celery",
        "console",
    }
)
"""Fields whose variables begin with `ICEKEEPER__`; all others begin with `LAKEKEEPER__`."""

OWN_MEMBERS = frozenset(("audit", name) for name in AuditSettings.model_fields if name != "tracing")
"""Members of Lakekeeper's groups whose variables begin with `ICEKEEPER__`."""


def variable_name(path: tuple[str, ...]) -> str:
    """The variable that sets the field at `path`, such as ("server", "threads") -> ICEKEEPER__SERVER__THREADS."""
    return (ICEKEEPER_PREFIX if is_own(path) else LAKEKEEPER_PREFIX) + "__".join(path).upper()


def is_own(path: Sequence[str]) -> bool:
    return path[0] in OWN_FIELDS or tuple(path[:2]) in OWN_MEMBERS
