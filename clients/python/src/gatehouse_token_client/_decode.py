"""Reads token-service's answers. Missing or unknown values deny."""

import re
from datetime import timezone
from typing import Final, Literal

from ._gen import principal_pb2
from ._gen.token_service_pb2 import INACTIVE_REASON_EXPIRED, INACTIVE_REASON_REVOKED, VerifyTokenResponse
from .principal import Principal

ROLE_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{0,31}")
Refusal = Literal["invalid", "expired", "revoked"]

_REASONS: Final[dict[int, Refusal]] = {INACTIVE_REASON_EXPIRED: "expired", INACTIVE_REASON_REVOKED: "revoked"}
_LEVELS: Final = {f"urn:gatehouse:acr:{level}": level for level in (1, 2, 3)}


def decode(response: VerifyTokenResponse, audience: str | None) -> Principal | Refusal:
    if not response.active:
        return _REASONS.get(response.reason, "invalid")
    message = response.principal
    # token-service has checked it. An answer that names another audience is not the answer to this question.
    if audience is not None and message.audience != audience:
        return "invalid"
    # The proof of a bound token is not checked here.
    if message.HasField("confirmation"):
        return "invalid"
    has_times = message.HasField("issued_at") and message.HasField("expires_at")
    if not (message.user_id and message.session_id and message.token_id and has_times):
        return "invalid"
    if message.kind == principal_pb2.PRINCIPAL_KIND_CLIENT:
        return _client(message)
    if message.kind == principal_pb2.PRINCIPAL_KIND_USER:
        return _user(message)
    return "invalid"


def _user(message: principal_pb2.Principal) -> Principal | Refusal:
    level = _LEVELS.get(message.acr)
    if not ROLE_NAME.fullmatch(message.role) or level is None or not message.key_id or not message.HasField("auth_time"):
        return "invalid"
    return Principal(
        kind="user",
        user_id=message.user_id,
        session_id=message.session_id,
        role=message.role,
        client_id="",
        scopes=(),
        token_id=message.token_id,
        origin_token_id=message.origin_token_id,
        key_id=message.key_id,
        origin_key_id=message.origin_key_id,
        amr=tuple(message.amr),
        acr=level,
        auth_time=message.auth_time.ToDatetime(timezone.utc),
        issued_at=message.issued_at.ToDatetime(timezone.utc),
        expires_at=message.expires_at.ToDatetime(timezone.utc),
    )


def _client(message: principal_pb2.Principal) -> Principal | Refusal:
    if message.client_id != message.user_id or not message.scopes:
        return "invalid"
    issued_at = message.issued_at.ToDatetime(timezone.utc)
    return Principal(
        kind="client",
        user_id="",
        session_id=message.session_id,
        role="",
        client_id=message.client_id,
        scopes=tuple(message.scopes),
        token_id=message.token_id,
        origin_token_id=message.origin_token_id,
        key_id=message.key_id,
        origin_key_id=message.origin_key_id,
        amr=(),
        acr=1,
        auth_time=issued_at,
        issued_at=issued_at,
        expires_at=message.expires_at.ToDatetime(timezone.utc),
    )
