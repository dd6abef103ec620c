"""Signatures of webhooks, against the example of Standard Webhooks and the rules of their keys."""

from __future__ import annotations

import base64

import pytest

from events.sinks.webhook_signature import create_signing_secret, read_signing_key, signature_headers


def test_the_example_of_the_specification() -> None:
    key = read_signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    headers = signature_headers([key], event_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at=1614265330, body=body)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_two_keys_have_two_signatures() -> None:
    keys = [read_signing_key(create_signing_secret()) for _ in range(2)]
    both = signature_headers(keys, event_id="1", at=2, body=b"x")["webhook-signature"]
    each = [signature_headers([key], event_id="1", at=2, body=b"x")["webhook-signature"] for key in keys]
    assert both == " ".join(each)
    assert each[0] != each[1]


def test_without_keys_there_is_no_signature() -> None:
    assert signature_headers([], event_id="1", at=2, body=b"x") == {"webhook-id": "1", "webhook-timestamp": "2"}


@pytest.mark.parametrize("size", [24, 64])
def test_keys_of_the_allowed_size(size: int) -> None:
    assert read_signing_key("whsec_" + base64.b64encode(b"k" * size).decode()) == b"k" * size


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        base64.b64encode(b"k" * 32).decode(),
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
        "whsec_canary-not-base64-at-all-canary-canary!",
        "whsec_é",
    ],
)
def test_other_secrets_are_rejected_without_their_text(secret: str) -> None:
    with pytest.raises(ValueError, match=r"^must be whsec_ and 24 to 64 random bytes in base64$"):
        read_signing_key(secret)


def test_new_secrets_differ() -> None:
    assert len({create_signing_secret() for _ in range(10)}) == 10
