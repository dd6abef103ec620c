"""Authenticates Kubernetes service accounts with TokenReview or with the public keys of the cluster."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, Final, Literal

from icekeeper.kernel import request_context
from icekeeper.kernel.threads import WaiterLimit, release_thread_slot
from tenancy.actor import AuthenticationFailed, Identity
from tenancy.authn.authenticator import Authenticator, ProviderUnavailable, VerifiedToken
from tenancy.authn.oidc.authenticators import (
    KEYS_LIFETIME_SECONDS,
    REFRESH_PAUSE_SECONDS,
    JwksAuthenticator,
    Published,
    has_published_key,
)
from tenancy.authn.oidc.claims import texts, user_id
from tenancy.authn.oidc.jwt import (
    ALGORITHMS_OF,
    Expected,
    NotAJwt,
    UnusableKey,
    read_jwt,
    read_key_set,
    signing_key_id,
    verify_signature,
)
from tenancy.authn.provider_documents import Fetcher, FetchFailed, RefreshingCache

logger = logging.getLogger("icekeeper.authn")

PROVIDER_ID: Final = "kubernetes"
LEGACY_ISSUERS: Final = frozenset({"kubernetes/serviceaccount", "https://kubernetes.default.svc.cluster.local"})
MAX_NAME_LENGTH: Final = 255

_EVERY_ALGORITHM: Final = frozenset().union(*ALGORITHMS_OF.values())

SubjectSource = Literal["uid", "username"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The API server; `token_file` contains the token for it, which Kubernetes rotates."""

    address: str
    fetcher: Fetcher
    token_file: Path

    def authorized(self) -> Fetcher:
        """Return a fetcher with the current token. Raises `FetchFailed`."""
        try:
            token = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FetchFailed(f"{self.token_file} cannot be read: {type(error).__name__}") from None
        return replace(self.fetcher, bearer=token)


class TokenReviewAuthenticator(Authenticator):
    """Verifies each token with the API server (TokenReview), which also rejects tokens of deleted accounts.

    With empty `audiences` every token is reviewed, restricted to `issuers` if there are any. Tokens signed by a key of
    the cluster have their own slots; other tokens, which any client can forge, share few slots and delay only each
    other.
    """

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        audiences: frozenset[str],
        issuers: frozenset[str],
        source: SubjectSource,
        leeway: float,
    ) -> None:
        self.name = name
        self._cluster, self._audiences, self._issuers, self._source = cluster, audiences, issuers, source
        self._leeway = leeway
        self._proven = ReviewSlots(name, MAX_REVIEWS, WaiterLimit())
        self._unproven = ReviewSlots(name, MAX_UNPROVEN_REVIEWS, WaiterLimit(max_short_waiters=MAX_UNPROVEN_WAITING))
        self._rejections = RecentRejections()
        self._published = RefreshingCache(
            name,
            lambda _: _fetch_published(cluster, _EVERY_ALGORITHM, name),
            lifetime=KEYS_LIFETIME_SECONDS,
            pause=REFRESH_PAUSE_SECONDS,
            timeout=2 * cluster.fetcher.timeout,
        )

    def connect(self) -> None:
        """Read the configured files; the API server itself is contacted with the first token."""
        try:
            self._cluster.authorized()
            if self._cluster.fetcher.ca_file is not None:
                self._cluster.fetcher.ca_file.read_bytes()
        except (FetchFailed, OSError) as error:
            raise ProviderUnavailable(f"{self.name}: {error}") from None

    def may_accept(self, token: str) -> bool:
        try:
            unverified = read_jwt(token)
        except NotAJwt:
            return False
        if self._issuers and self._issuers.isdisjoint(unverified.issuers):
            return False
        return not self._audiences or not self._audiences.isdisjoint(unverified.audiences)

    @property
    def is_exclusive(self) -> bool:
        """False without issuers: the token may be of any provider."""
        return bool(self._issuers)

    def has_key_of(self, token: str) -> bool:
        return has_published_key(token, self._published.known, _EVERY_ALGORITHM)

    def refresh_briefly(self) -> None:
        self._published.refresh_briefly()

    def verify(self, token: str) -> VerifiedToken:
        expires_at = self._expiry(token)
        is_proven = self._is_proven(token)
        if not is_proven and self._rejections.is_over_limit:
            raise ProviderUnavailable(f"{self.name}: too many tokens were rejected")
        status = self._review(token, self._proven if is_proven else self._unproven).get("status")
        if not isinstance(status, dict) or status.get("authenticated") is not True or status.get("error"):
            if not is_proven:
                self._rejections.add()
            raise AuthenticationFailed(f"{self.name}: the API server rejects it")
        audiences = texts(status.get("audiences"))
        if self._audiences and self._audiences.isdisjoint(audiences):
            raise AuthenticationFailed(f"{self.name}: it is for another audience")
        user = status.get("user")
        user = user if isinstance(user, dict) else {}
        identity = _identity(user.get("uid"), user.get("username"), audiences, self._source, self.name)
        return VerifiedToken(identity, expires_at)

    def _expiry(self, token: str) -> float:
        """Return the expiry of the token, infinite without `exp`. Raises `AuthenticationFailed` if it has passed."""
        try:
            claims = read_jwt(token).claims
        except NotAJwt as reason:
            raise AuthenticationFailed(f"{self.name}: {reason}") from None
        expiry = claims.get("exp")
        if isinstance(expiry, bool) or not isinstance(expiry, int | float):
            return math.inf
        if time.time() >= expiry + self._leeway:
            raise AuthenticationFailed(f"{self.name}: it has expired")
        return float(expiry)

    def _is_proven(self, token: str) -> bool:
        """Return whether a key of the cluster signed the token; false if it names no key that is available.

        Raises `AuthenticationFailed` if the key that it names did not sign it.
        """
        try:
            key_id, algorithm = signing_key_id(read_jwt(token), _EVERY_ALGORITHM)
            keys = self._published.get(lambda newest: key_id in newest.keys).keys.get(key_id, ())
        except (AuthenticationFailed, ProviderUnavailable):
            return False
        if not keys:
            return False
        verify_signature(token, keys, algorithm)
        return True

    def _review(self, token: str, slots: ReviewSlots) -> dict[str, Any]:
        """Return the TokenReview. It contains the token, so it is never logged."""
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = sorted(self._audiences)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        timeout, remaining = self._cluster.fetcher.timeout, request_context.remaining_seconds()
        with slots.acquire(timeout=timeout if remaining is None else min(timeout, remaining)), release_thread_slot():
            try:
                address = f"{self._cluster.address}/apis/authentication.k8s.io/v1/tokenreviews"
                return self._cluster.authorized().post(address, review)
            except FetchFailed as reason:
                logger.warning("%s: the token review failed: %s", self.name, reason)
                raise ProviderUnavailable(f"{self.name}: {reason}") from None


class KubernetesJwksAuthenticator(JwksAuthenticator):
    """Verifies tokens with the public keys of the cluster: faster, but a deleted account remains valid until `exp`."""

    def __init__(
        self, name: str, cluster: Cluster, *, expected: Expected, source: SubjectSource, algorithms: frozenset[str]
    ) -> None:
        super().__init__(
            name,
            expected=expected,
            issuers=frozenset(),
            algorithms=algorithms,
            timeout=2 * cluster.fetcher.timeout,
        )
        self._cluster, self._source = cluster, source

    def identity(self, claims: Mapping[str, Any]) -> Identity:
        audiences = texts(claims.get("aud"))
        return _identity(_account(claims).get("uid"), claims.get("sub"), audiences, self._source, self.name)

    def fetch(self, before: Published | None) -> Published:
        """Fetch the keys from the API server itself, whatever URL its discovery document names."""
        return _fetch_published(self._cluster, self._algorithms, self.name)


def _fetch_published(cluster: Cluster, algorithms: frozenset[str], name: str) -> Published:
    """Raises `FetchFailed`."""
    fetcher, address = cluster.authorized(), f"{cluster.address}/openid/v1/jwks"
    issuer = fetcher.get(f"{cluster.address}/.well-known/openid-configuration").get("issuer")
    if not isinstance(issuer, str) or not issuer:
        raise FetchFailed("the API server names no issuer")
    try:
        return Published(issuer, address, read_key_set(fetcher.get(address), algorithms, name))
    except UnusableKey as reason:
        raise FetchFailed(f"{address}: {reason}") from None


def _account(claims: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the service account of the private claim `kubernetes.io` (a claim name with a dot, not a path)."""
    private = claims.get("kubernetes.io")
    account = private.get("serviceaccount") if isinstance(private, dict) else None
    return account if isinstance(account, dict) else {}


def _identity(uid: Any, username: Any, audiences: tuple[str, ...], source: SubjectSource, name: str) -> Identity:
    subject = uid if source == "uid" else username
    if not isinstance(subject, str) or not subject:
        raise AuthenticationFailed(f"{name}: it has no {source}")
    shown = username[:MAX_NAME_LENGTH] if isinstance(username, str) and username.isprintable() else None
    return Identity(
        user_id=user_id(PROVIDER_ID, subject),
        provider_id=PROVIDER_ID,
        user_type="application",
        name=shown or None,
        audiences=audiences,
    )


MAX_REVIEWS: Final = 8
"""Maximum of concurrent reviews of one process; further ones wait."""
MAX_UNPROVEN_REVIEWS: Final = 2
"""As `MAX_REVIEWS`, for tokens that no known key of the cluster signed."""
MAX_UNPROVEN_WAITING: Final = 8
"""Maximum of such tokens that wait; any client can forge new ones continuously."""
MAX_REJECTED, REJECTED_SECONDS = 20, 10.0
"""Number of rejected reviews of such tokens within these seconds after which no more of them are reviewed."""


class ReviewSlots:
    """Limits reviews: `max_running` run at the same time, and `waiters` limits those that wait for them."""

    def __init__(self, name: str, max_running: int, waiters: WaiterLimit) -> None:
        self._name, self._slots, self._waiters = name, BoundedSemaphore(max_running), waiters

    @contextmanager
    def acquire(self, *, timeout: float) -> Iterator[None]:
        """Hold a slot. Raises `ProviderUnavailable` if none is free within `timeout` seconds."""
        if not self._waiters.wait(lambda seconds: self._slots.acquire(timeout=seconds), seconds=timeout):
            raise ProviderUnavailable(f"{self._name}: too many tokens wait for the API server")
        try:
            yield
        finally:
            self._slots.release()


class RecentRejections:
    """Times of the last rejected reviews of tokens that no known key signed."""

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=MAX_REJECTED)
        self._lock = Lock()

    def add(self) -> None:
        with self._lock:
            self._at.append(time.monotonic())

    @property
    def is_over_limit(self) -> bool:
        with self._lock:
            return len(self._at) == MAX_REJECTED and time.monotonic() - self._at[0] < REJECTED_SECONDS
