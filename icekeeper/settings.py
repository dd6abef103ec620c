"""Django's settings, derived from `icekeeper.conf`."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.contrib.messages import constants as message_levels
from django.utils.functional import SimpleLazyObject
from pydantic import SecretStr

from icekeeper.conf.database import databases
from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.conf.settings import Settings
from icekeeper.conf.values import require_signing_key
from tasks.runtime.jobs import HOUR, MINUTE, Job, Where

BASE_DIR = Path(__file__).resolve().parent.parent

try:
    ICEKEEPER, UNREAD_VARIABLES = read_settings(os.environ)
except SettingsError as error:
    sys.exit("\n".join(f"icekeeper: {problem}" for problem in error.problems))


def _secret_keys(settings: Settings, *, is_embedded: bool) -> tuple[Any, list[Any]]:
    """Return the signing key, and former ones whose tokens are still valid. `is_embedded`: the database is SQLite.

    Keys that the database stores are read at their first use, so that commands that need none, such as `version`, run
    without a database or a writable data folder.
    """
    former = [key.get_secret_value() for key in settings.secret_key_fallbacks]
    if settings.secret_key is not None:
        return settings.secret_key.get_secret_value(), former
    if is_embedded:
        return _secret_key_of_folder(settings.data_dir), former
    shared = [_shared_secret_key(key) for key in (settings.pg_encryption_key, *settings.pg_encryption_old_keys)]
    return shared[0], shared[1:] + former


def _shared_secret_key(encryption_key: SecretStr | None) -> Any:
    def read() -> str:
        from tenancy.signing_keys import shared_signing_key  # needs complete settings

        return shared_signing_key(encryption_key)

    return SimpleLazyObject(read)


def _secret_key_of_folder(folder: Path) -> Any:
    """Return the key in the data folder. If it cannot be read or created, the process exits when it uses the key."""
    path = folder / "secret-key"
    try:
        key = _read_or_create_key(path)
    except OSError as error:
        message = (
            f"icekeeper: {path} cannot be read or written: {error.strerror}. The embedded SQLite needs a folder that "
            "this user can write to: set ICEKEEPER__DATA_DIR to one, or LAKEKEEPER__PG_DATABASE_URL_WRITE to a "
            "PostgreSQL database"
        )
        return SimpleLazyObject(lambda: sys.exit(message))
    try:
        require_signing_key(key)
    except ValueError as requirement:
        sys.exit(f"icekeeper: {path} contains a weak key (docs/upgrade.md); expected: {requirement}")
    return key


def _read_or_create_key(path: Path) -> str:
    """Return the key in `path`, created if it does not exist.

    A new key is linked in place when it is complete, so that no process reads a partial key; the first writer wins.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_name(f"secret-key.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text()


DATABASES: dict[str, dict[str, Any]] = databases(ICEKEEPER)
READ_DATABASE = "read" if "read" in DATABASES else "default"

SECRET_KEY, FORMER_SECRET_KEYS = _secret_keys(ICEKEEPER, is_embedded=DATABASES["default"]["ENGINE"].endswith("sqlite3"))
DEBUG = False
ALLOWED_HOSTS = ["*"]  # links use the Host header only as a last resort: kernel/http/base_url.py
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "unfold.apps.BasicAppConfig",  # before the admin, whose templates it replaces
    "management.admin.apps.ConsoleConfig",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "tenancy",
    "storage",
    "tasks",
    "events",
    "catalog",
    "management",
    "icekeeper.apps.DeploymentConfig",
]
AUTH_USER_MODEL = "tenancy.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

ROOT_URLCONF = "icekeeper.urls"
WSGI_APPLICATION = "icekeeper.wsgi.application"
APPEND_SLASH = False

API_PREFIXES = ("/catalog/", "/lakekeeper/", "/management/")
# Outermost first. Request id, body limit, deadline and log line are set by icekeeper.http.application.
_CORS = ["corsheaders.middleware.CorsMiddleware"] if ICEKEEPER.allow_origin else []
API_MIDDLEWARE = [*_CORS, "icekeeper.http.middleware.compress_responses", "icekeeper.http.middleware.mark_private"]
# Called with request and response of each API call after the response was sent; they must be fast and must not block.
REQUEST_OBSERVERS = ["management.call_counter.count_request"]
# Called with request and response before the response is sent; an exception becomes a 500.
RESPONSE_HOOKS = ["tenancy.audit.occurrences.audit_response"]
# Models whose rows refer to secrets, by the column `secret_id`.
SECRET_OWNERS = ["storage.Warehouse", "events.EventSink", "catalog.ChangeRule"]
# Writes an event for a task that ended, in its transaction.
TASK_END_RECORDER = "tenancy.services.task_events.record_task_end"
# What runs independently of requests. Cleanups are rare: an idle worker sends hardly any statement for them.
PERIODIC_JOBS = [
    # Requests look at the results of these two. Workers look at the switch themselves, before they start to work.
    Job(
        name="maintenance-switch",
        run="tenancy.maintenance.poll_switch",
        every=2.0,
        where=Where.EACH_SERVER_PROCESS,
        is_quick=True,
        first_run_within=5.0,
        runs_in_maintenance=True,
    ),
    Job(
        name="permission-epoch",
        run="tenancy.authz.permission_epoch.poll_permission_epoch",
        every=1.0,
        where=Where.EACH_SERVER_PROCESS,
        is_quick=True,
        runs_in_maintenance=True,
    ),
    # What requests collected in memory.
    Job(
        name="endpoint-statistics",
        run="management.call_counter.write_calls",
        every="endpoint_stat_flush_interval",
        where=Where.EACH_SERVER_PROCESS,
        at_stop="management.call_counter.write_calls",
    ),
    Job(
        name="token-uses",
        run="tenancy.authn.own_tokens.stored_tokens.write_token_uses",
        every=30.0,
        where=Where.EACH_SERVER_PROCESS,
        at_stop="tenancy.authn.own_tokens.stored_tokens.write_token_uses",
    ),
    Job(
        name="audit-records",
        run="tenancy.audit.collector.write_and_seal",
        every=5.0,
        where=Where.EACH_SERVER_PROCESS,
        at_stop="tenancy.audit.collector.write_all_and_seal",
    ),
    Job(
        name="openfga-delivery",
        run="tenancy.authz.openfga.delivery.deliver_late",
        every=2.0,
        where=Where.EACH_SERVER_PROCESS,
        applies="tenancy.authz.port.is_openfga",
    ),
    Job(
        name="openfga-delivery-by-worker",
        run="tenancy.authz.openfga.delivery.deliver_pending",
        every=5 * MINUTE,
        where=Where.ONE_WORKER,
        applies="tenancy.authz.port.is_openfga",
    ),
    # Records of commands and workers; server processes seal their own within seconds.
    Job(name="audit-seals", run="tenancy.audit.chain.seal_records", every=HOUR, where=Where.ONE_WORKER),
    # Until a record is deleted, its key cannot be used for another request; by default it lives for half an hour.
    Job(
        name="expired-idempotency-records",
        run="catalog.services.idempotency.delete_expired_idempotency_records",
        every=30 * MINUTE,
        where=Where.ONE_WORKER,
    ),
    Job(
        name="old-location-claims",
        run="catalog.services.tables.staging.delete_old_claims",
        every=6 * HOUR,
        where=Where.ONE_WORKER,
    ),
    Job(name="old-audit-records", run="tenancy.audit.chain.delete_old_records", every=6 * HOUR, where=Where.ONE_WORKER),
    Job(
        name="old-metrics-reports",
        run="catalog.services.metrics_reports.delete_old_reports",
        every=6 * HOUR,
        where=Where.ONE_WORKER,
    ),
    Job(
        name="old-warehouse-statistics",
        run="catalog.services.warehouse_statistics.delete_old_warehouse_statistics",
        every=6 * HOUR,
        where=Where.ONE_WORKER,
    ),
    Job(
        name="old-warehouse-sizes",
        run="catalog.services.warehouse_sizes.delete_old_warehouse_sizes",
        every=6 * HOUR,
        where=Where.ONE_WORKER,
    ),
    Job(
        name="old-file-statistics",
        run="catalog.services.file_statistics.delete_old_file_statistics",
        every=6 * HOUR,
        where=Where.ONE_WORKER,
    ),
    Job(
        name="old-endpoint-statistics",
        run="management.endpoint_statistics.delete_old_statistics",
        every=6 * HOUR,
        where=Where.ONE_WORKER,
    ),
    # Each project has a task that deletes its old tasks, and one that records its statistics when an hour ends. This
    # enqueues the first ones, a minute before an hour ends.
    Job(
        name="project-tasks",
        run="tenancy.services.project_tasks.schedule_project_tasks",
        every=HOUR,
        offset=-60.0,
        where=Where.ONE_WORKER,
    ),
    Job(name="old-events", run="tenancy.changes.retention.delete_old_events", every=6 * HOUR, where=Where.ONE_WORKER),
    Job(
        name="old-tokens",
        run="tenancy.services.access_tokens.delete_old_tokens",
        every=6 * HOUR,
        where=Where.ONE_WORKER,
    ),
    Job(
        name="old-sql-queries", run="management.sql_history.delete_old_queries", every=6 * HOUR, where=Where.ONE_WORKER
    ),
    # An ended session is never accepted, so the rows only use space.
    Job(
        name="ended-sessions",
        run="management.sign_in.sessions.delete_ended_sessions",
        every=HOUR,
        where=Where.ONE_WORKER,
    ),
]
# Called with the id of a user who is blocked or deleted, in the transaction of that change.
BLOCKED_USER_HOOKS = [
    "management.sign_in.sessions.delete_sessions_of",
    "management.sql_history.delete_queries_if_deleted",
]
# Checks and preparations, called by `serve` before it listens and forks; a CatalogError prevents the start.
STARTUP_JOBS = [
    "tenancy.services.startup_checks.require_terms_accepted",
    "tenancy.services.startup_checks.require_chosen_backend",
    "storage.secrets.stores.require_readable_secrets",
    "storage.signing.enforcement.warn_of_unsigned_writes",
    "catalog.services.approval.rule_set.require_configured_verifiers",
    "tenancy.signing_keys.require_signing_keys",
    "catalog.services.commit.queue.share_leases",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "icekeeper.http.middleware.compress_responses",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # Sessions of the console. Other pages run no statement for them.
    "management.admin.headers.protect_console",
    "management.sign_in.middleware.follow_public_address",
    "management.sign_in.middleware.ConsoleSessionMiddleware",
    "management.sign_in.middleware.ActorMiddleware",
    "management.sign_in.middleware.ConsoleCsrfMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

# `follow_public_address` replaces path and `Secure` of both cookies by those of the public URL of each request.
SESSION_ENGINE = "management.sign_in.session_store"
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "icekeeper_session", "icekeeper_csrf"
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = "/ui"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_EXPIRE_AT_BROWSER_CLOSE, CSRF_COOKIE_AGE = True, None  # the server limits the lifetime
CSRF_FAILURE_VIEW = "management.sign_in.views.csrf_failure"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
MESSAGE_TAGS = {message_levels.SUCCESS: "good", message_levels.ERROR: "bad"}  # as the classes of the console's notes
AUTHENTICATION_BACKENDS = ["management.sign_in.oidc.ProviderBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {
        "NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ("id", "name", "email")},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

CORS_ALLOW_ALL_ORIGINS = "*" in ICEKEEPER.allow_origin
CORS_ALLOWED_ORIGINS = [origin for origin in ICEKEEPER.allow_origin if origin != "*"]
CORS_ALLOW_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]
CORS_ALLOW_HEADERS = [
    "authorization",
    "content-type",
    "accept",
    "user-agent",
    "x-project-id",
    "x-request-id",
    "x-assume-role",
    "if-none-match",
    "x-user-agent",
    "x-iceberg-access-delegation",
    "idempotency-key",
    "x-icekeeper-extensions",
]
CORS_EXPOSE_HEADERS = ["etag", "x-request-id", "retry-after"]

# The request body is limited once, in icekeeper.http.request_body, for every route alike.
DATA_UPLOAD_MAX_MEMORY_SIZE = None

STATIC_URL = "static/"  # below the prefix of the public URL
WHITENOISE_USE_FINDERS = True
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_PARSER_CLASSES": ["icekeeper.http.drf_json.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["icekeeper.http.drf_json.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "icekeeper.http.drf_json.FirstFormat",
    "DEFAULT_SCHEMA_CLASS": "icekeeper.kernel.http.openapi.OperationSchema",
    "EXCEPTION_HANDLER": "icekeeper.kernel.errors.responses.error_response",
    "UNAUTHENTICATED_USER": None,
}
# Titles, versions and tags of the documents: management/openapi/documents.py.
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # Enums stay inline: the default hook extracts them to components with generated names.
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enum_id_removal"],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}

SILENCED_SYSTEM_CHECKS = [
    "security.W003",  # CSRF: ConsoleCsrfMiddleware protects the console; elsewhere no cookie authenticates a user
    "security.W004",  # HSTS: a proxy in front of this server terminates TLS and sets the header
    "security.W008",  # Redirects to HTTPS: likewise, and a redirected API call has already sent its token unencrypted
    "security.W009",  # The signing key: a weak one is rejected when the settings are read (icekeeper.conf.values)
    "drf_spectacular.W002",  # Swagger's pages are no operations; `manage.py openapi` checks the documents
]

VERBOSE_LIBRARIES = ["azure", "boto3", "botocore", "google", "hvac", "msal", "requests", "s3transfer", "urllib3"]
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "icekeeper.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": ICEKEEPER.log_level.upper()},
    "loggers": {
        # The access log has one line for each request (icekeeper.http); Django would add another.
        "django.request": {"level": "CRITICAL"},
        "django.server": {"level": "ERROR"},
        # Written only with LOG_CLOUDEVENTS, and then at any LOG_LEVEL.
        "icekeeper.events": {"level": "INFO"},
        # At lower levels these log request parameters and responses, which contain keys.
        **{library: {"level": "WARNING"} for library in VERBOSE_LIBRARIES},
    },
}
