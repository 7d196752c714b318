"""Failures by the codes of docs/errors.md."""

import json
from typing import ClassVar

import grpc


class AuthError(Exception):
    """Why a call is not carried out."""

    code: ClassVar[str] = "internal_error"
    message: ClassVar[str] = ""
    http_status: ClassVar[int] = 500
    rpc_status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    challenge: str | None = None
    """`WWW-Authenticate`."""
    details: dict[str, object] | None = None

    def __init__(self, note: str = "") -> None:
        super().__init__(note or self.message)

    def http_headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        if self.challenge is not None:
            headers.append((b"www-authenticate", self.challenge.encode()))
        if self.http_status == 503:
            headers.append((b"retry-after", b"1"))
        return headers

    def http_body(self) -> bytes:
        error: dict[str, object] = {"code": self.code}
        if self.details is not None:
            error["details"] = self.details
        return json.dumps({"success": False, "message": self.message, "error": error}).encode()

    def rpc_metadata(self) -> tuple[tuple[str, bytes], ...]:
        """`google.rpc.Status` with an `ErrorInfo` whose reason is the code (AIP-193)."""
        info = _field(1, self.code.encode()) + _field(2, b"gatehouse")
        if self.details is not None:
            demand = json.dumps(self.details).encode()
            info += _field(3, _field(1, b"step_up_demand") + _field(2, demand))
        detail = _field(1, b"type.googleapis.com/google.rpc.ErrorInfo") + _field(2, info)
        number: int = self.rpc_status.value[0]
        status = bytes([0x08, number]) + _field(2, self.message.encode()) + _field(3, detail)
        return (("grpc-status-details-bin", status),)


def _field(number: int, value: bytes) -> bytes:
    """A length-delimited field of a protobuf message, shorter than 16 KiB."""
    size = len(value)
    length = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([number << 3 | 2]) + length + value


class _Unauthenticated(AuthError):
    http_status = 401
    rpc_status = grpc.StatusCode.UNAUTHENTICATED


class TokenMissing(_Unauthenticated):
    code = "token_missing"
    message = "The call needs an access token."
    challenge = "Bearer"


class TokenRefused(_Unauthenticated):
    """The token is not good. `reason` is `invalid` or `revoked`; a TokenExpired has `expired`."""

    code = "token_invalid"
    message = "The access token was not issued here, is malformed or has been revoked."
    challenge = 'Bearer error="invalid_token"'

    def __init__(self, reason: str) -> None:
        super().__init__(f"the token is {reason}")
        self.reason = reason


class TokenExpired(TokenRefused):
    code = "token_expired"
    message = "The access token has expired; refresh it."


class StepUpRequired(_Unauthenticated):
    """The challenge is that of RFC 9470 section 3."""

    code = "step_up_required"
    message = "The call needs a stronger or more recent proof of who the user is; `details` says which. See `POST /auth/step-up`."

    def __init__(self, acr: int, max_age_seconds: int | None, current: int) -> None:
        super().__init__()
        target = max(acr, current)
        reaches = (("passkey", 3), ("totp", 2), ("recovery_code", 2), ("password", 1))
        self.details = {"acr": acr, "methods": [method for method, level in reaches if level >= target]}
        age = ""
        if max_age_seconds is not None:
            self.details["maxAgeSeconds"] = max_age_seconds
            age = f", max_age={max_age_seconds}"
        values = f'error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:{acr}"'
        self.challenge = f"Bearer {values}{age}"


class Forbidden(AuthError):
    code = "forbidden"
    message = "The caller's role, or the client's scope, does not allow this call."
    challenge = 'Bearer error="insufficient_scope"'
    http_status = 403
    rpc_status = grpc.StatusCode.PERMISSION_DENIED


class UserRequired(Forbidden):
    code = "user_required"
    message = "The call needs a step-up or an approval, which only a user can give."
    challenge = None


class VerifierUnavailable(AuthError):
    """The token's state cannot be known now: 503, never 401."""

    code = "service_unavailable"
    message = "A part of Gatehouse is temporarily unavailable; try again."
    http_status = 503
    rpc_status = grpc.StatusCode.UNAVAILABLE
