"""Verifies Gatehouse's access tokens. `asgi` and `wsgi` have middleware, `rpc` interceptors for gRPC servers."""

from ._relay import TlsFiles
from ._rules import bearer_token
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
from .principal import AUTHENTICATED, PUBLIC, AssuranceDemand, Principal, Public, RouteAuth
from .verifier import TokenVerifier

__all__ = [
    "AUTHENTICATED",
    "PUBLIC",
    "AssuranceDemand",
    "AuthError",
    "Forbidden",
    "Principal",
    "Public",
    "RouteAuth",
    "StepUpRequired",
    "TlsFiles",
    "TokenExpired",
    "TokenMissing",
    "TokenRefused",
    "TokenVerifier",
    "UserRequired",
    "VerifierUnavailable",
    "bearer_token",
]
