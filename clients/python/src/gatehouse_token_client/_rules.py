"""Finds the token of a call, and text that token-service would refuse whatever its signature, without a call."""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .errors import TokenMissing, TokenRefused

Screening = Literal["plausible", "invalid", "expired", "unknown_key"]

MAX_TOKEN_CHARACTERS: Final = 4096
_SCHEME: Final = re.compile(r"bearer(?: |$)", re.IGNORECASE)
_CREDENTIALS: Final = re.compile(r"bearer ([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)
_TOKEN_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_API_KEY: Final = re.compile(r"gh_[0-9a-f]{32}_[A-Za-z0-9_-]{43}")
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_SIGNATURE_CHARACTERS: Final = 86
_ALGORITHMS: Final = ("EdDSA", "ES256")
_EXPIRED_FOR_CERTAIN_S: Final = 10
"""Exceeds the leeway of token-service (5 s) plus the uncertainty of its time (3 s)."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    issuer: str
    algorithms: dict[str, str]
    """By `kid`."""


def bearer_token(values: Sequence[str]) -> str:
    """Of all values of the header `Authorization` (RFC 6750 section 2.1). Raises TokenMissing, or TokenRefused also for several values."""
    if not any(_SCHEME.match(value) for value in values):
        raise TokenMissing
    found = _CREDENTIALS.fullmatch(values[0]) if len(values) == 1 else None
    if found is None or len(found[1]) > MAX_TOKEN_CHARACTERS:
        raise TokenRefused("invalid")
    return found[1]


def is_token_shape(text: str) -> bool:
    return len(text) <= MAX_TOKEN_CHARACTERS and _TOKEN_SHAPE.fullmatch(text) is not None


def is_api_key(text: str) -> bool:
    return _API_KEY.fullmatch(text) is not None


def screen_token(text: str, rules: TokenRules, server_now_s: float | None, audience: str | None) -> Screening:
    """`plausible` proves nothing. `audience` None: the issuer."""
    header_text, _, rest = text.partition(".")
    payload_text, _, signature = rest.partition(".")
    header, payload = _json_object(header_text), _json_object(payload_text)
    if header is None or payload is None or len(signature) != _SIGNATURE_CHARACTERS:
        return "invalid"
    if header.keys() != {"alg", "typ", "kid"} or header["typ"] != "at+jwt":
        return "invalid"
    key_id, algorithm, expires_s = header["kid"], header["alg"], payload.get("exp")
    if not isinstance(key_id, str) or _KEY_ID.fullmatch(key_id) is None:
        return "invalid"
    if payload.get("iss") != rules.issuer or payload.get("aud") != (audience or rules.issuer):
        return "invalid"
    if not isinstance(expires_s, int | float) or isinstance(expires_s, bool):
        return "invalid"
    is_known = key_id in rules.algorithms
    if (rules.algorithms[key_id] != algorithm) if is_known else (algorithm not in _ALGORITHMS):
        return "invalid"
    # Before the key: a key leaves when its last token has ended.
    if server_now_s is not None and expires_s + _EXPIRED_FOR_CERTAIN_S <= server_now_s:
        return "expired"
    return "plausible" if is_known else "unknown_key"


def claimed_audience(text: str) -> object:
    """What the token says itself; nobody has checked it."""
    payload = _json_object(text.partition(".")[2].partition(".")[0])
    return None if payload is None else payload.get("aud")


def _json_object(segment: str) -> dict[str, object] | None:
    try:
        data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
        is_one_form = base64.urlsafe_b64encode(data).rstrip(b"=") == segment.encode()
        value = json.loads(data) if is_one_form else None
    except (ValueError, RecursionError):  # deep nesting is an attack, not a token
        return None
    return value if isinstance(value, dict) else None
