"""Who a verified token speaks for, and what a route may ask of them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from .errors import Forbidden, StepUpRequired, UserRequired

CLOCK_SKEW_S: Final = 5
"""Of the clocks of services. A proof further ahead is not fresh."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a verified access token or API key speaks for."""

    kind: Literal["user", "client"]
    user_id: str
    """Empty for clients."""
    session_id: str
    """Of a client: its credential's id."""
    role: str
    """A name of access.yaml. Empty for clients."""
    client_id: str
    """Empty for users."""
    scopes: tuple[str, ...]
    """Permissions that a client was granted. Empty for users."""
    token_id: str
    origin_token_id: str
    """Of the token that this one was exchanged for, and whose revocation ends it. Empty for others."""
    key_id: str
    """Empty for an API key."""
    origin_key_id: str
    """`key_id` of the token that this one was exchanged for. Empty for others, and if it was an API key."""
    amr: tuple[str, ...]
    """How the user authenticated (RFC 8176)."""
    acr: int
    """Level of assurance: 1 one factor, 2 two factors, 3 a passkey with user verification."""
    auth_time: datetime
    """The last moment at which the session reached `acr`."""
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class AssuranceDemand:
    """A level of assurance that the caller's session must have."""

    acr: Literal[1, 2, 3]
    max_age_seconds: int | None = None
    """Of the last proof of the session's level."""

    def is_met(self, principal: Principal, now: datetime | None = None) -> bool:
        """A client has no session to step up, and meets none. `now` as in `RouteAuth.check`."""
        if principal.kind == "client" or principal.acr < self.acr:
            return False
        if self.max_age_seconds is None:
            return True
        if now is None:
            raise TypeError("the age of a proof counts by the time of token-service: give verifier.now()")
        return -CLOCK_SKEW_S <= (now - principal.auth_time).total_seconds() <= self.max_age_seconds


@dataclass(frozen=True, slots=True)
class RouteAuth:
    """Who may call a route. Users by their role, clients by their scopes. Without arguments: nobody."""

    roles: Collection[str] = field(default=())
    """Of users, one of these."""
    scopes: Collection[str] = field(default=())
    """Of clients, all of them. Without any, no client is allowed."""
    assurance: AssuranceDemand | None = None
    any_user: bool = field(default=False, kw_only=True)
    """Users of every role."""

    def __post_init__(self) -> None:
        if isinstance(self.roles, str) or isinstance(self.scopes, str):
            raise TypeError("roles and scopes are collections of names")

    def check(self, principal: Principal, now: datetime | None = None) -> None:
        """Raises Forbidden, UserRequired or StepUpRequired.

        `now`: `TokenVerifier.now()`, since the clock of this machine may be wrong. Without it a `max_age_seconds` is a TypeError.
        """
        if principal.kind == "client":
            if not self.scopes or not set(self.scopes) <= set(principal.scopes):
                raise Forbidden
        elif not self.any_user and principal.role not in self.roles:
            raise Forbidden
        if self.assurance is None:
            return
        if principal.kind == "client":
            raise UserRequired
        if not self.assurance.is_met(principal, now):
            raise StepUpRequired(self.assurance.acr, self.assurance.max_age_seconds, principal.acr)


class Public:
    """The type of PUBLIC."""

    __slots__ = ()


PUBLIC: Final = Public()
"""Instead of a RouteAuth: everybody, also without a token."""
AUTHENTICATED: Final = RouteAuth(any_user=True)
"""Every user, and no client."""
