"""Verifies Gatehouse's access tokens. `asgi` has middleware, `rpc` interceptors for gRPC servers."""

from ._relay import TlsFiles
from .errors import (
    AuthError,
    Forbidden,
    StepUpRequired,
    TokenExpired,
    TokenMissing,
    TokenRefused,
    UserRequired,
    VerifierUnavailable,
)
from .principal import AUTHENTICATED, PUBLIC, Access, Demand, Principal, Public
from .verifier import TokenVerifier

__all__ = [
    "AUTHENTICATED",
    "PUBLIC",
    "Access",
    "AuthError",
    "Demand",
    "Forbidden",
    "Principal",
    "Public",
    "StepUpRequired",
    "TlsFiles",
    "TokenExpired",
    "TokenMissing",
    "TokenRefused",
    "TokenVerifier",
    "UserRequired",
    "VerifierUnavailable",
]
