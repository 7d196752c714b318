"""A verifier for the tests of a service, which needs no token-service."""

import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Literal, overload

from ._decode import ROLE_NAME
from .errors import TokenExpired, TokenRefused, VerifierUnavailable
from .principal import CLOCK_SKEW_S, Principal
from .verifier import TokenVerifier

_LIFE: Final = timedelta(minutes=15)
_AMR: Final = {1: ("pwd",), 2: ("pwd", "otp", "mfa"), 3: ("hwk", "user", "mfa")}
"""As after a login with a password, with a second factor, and with a passkey."""


class TestVerifier(TokenVerifier):
    """Stands in for a TokenVerifier. The middleware and the interceptors apply their own rules to what it answers.

    It accepts only the tokens that it has issued itself, whose text is random. So a service that runs with it by mistake
    refuses every call. `wall` is its clock, in seconds of Unix time.
    """

    __test__ = False  # pytest takes it for a class of tests otherwise

    is_available: bool
    """False: as without token-service, and every call is a 503."""

    # It has nothing of a TokenVerifier but the type: a test holds that it overrides every public member.
    def __init__(self, *, wall: Callable[[], float] = time.time) -> None:
        self.is_available = True
        self._wall = wall
        self._issued: dict[str, Principal] = {}
        self._revoked_ids: set[str] = set()

    @overload
    def issue(
        self,
        *,
        user_id: str,
        role: str,
        acr: Literal[1, 2, 3] = 1,
        amr: Collection[str] | None = None,
        auth_time: datetime | None = None,
        session_id: str | None = None,
        expires_at: datetime | None = None,
    ) -> str: ...

    @overload
    def issue(
        self,
        *,
        client_id: str,
        scopes: Collection[str],
        session_id: str | None = None,
        expires_at: datetime | None = None,
    ) -> str: ...

    def issue(
        self, *, session_id: str | None = None, expires_at: datetime | None = None, **wanted: Any
    ) -> str:
        """Returns an access token for `Authorization: Bearer`. Raises ValueError if no token could have such a principal.

        Arguments are those of a Principal. The others have a value of their own for each token.
        """
        now = self.now()
        subject = _client(now, **wanted) if "client_id" in wanted else _user(now, **wanted)
        expires_at = now + _LIFE if expires_at is None else expires_at
        principal = Principal(
            **subject,
            session_id=str(uuid.uuid4()) if session_id is None else session_id,
            token_id=str(uuid.uuid4()),
            origin_token_id="",
            key_id="test",
            origin_key_id="",
            issued_at=now,
            expires_at=expires_at,
        )
        if principal.session_id == "":
            raise ValueError("session_id is empty")
        for moment in (principal.auth_time, expires_at):
            if moment.tzinfo is None:
                raise ValueError("a time needs a time zone, such as datetime.timezone.utc")
        token = f"test-{uuid.uuid4()}"
        self._issued[token] = principal
        return token

    def revoke(self, token: str) -> None:
        """As a logout: of a user it ends the session, with all of its tokens. Of a client it ends this token alone."""
        principal = self._principal_of(token)
        self._revoked_ids.add(principal.token_id if principal.kind == "client" else principal.session_id)

    def revoke_session(self, session_id: str) -> None:
        """Of a client: its credential."""
        self._revoked_ids.add(session_id)

    def revoke_user(self, user_id: str) -> None:
        """Ends the sessions that the user has now, as after a change of the role."""
        for principal in list(self._issued.values()):
            if principal.kind == "user" and principal.user_id == user_id:
                self.revoke_session(principal.session_id)

    def expire(self, token: str) -> None:
        """As if the token's time were over."""
        self._issued[token] = replace(self._principal_of(token), expires_at=datetime.fromtimestamp(0, timezone.utc))

    def verify(self, token: str) -> Principal:
        self.open()
        principal = self._issued.get(token)
        if principal is None:
            raise TokenRefused("invalid")
        if not self._revoked_ids.isdisjoint((principal.session_id, principal.token_id)):
            raise TokenRefused("revoked")
        if self.now() >= principal.expires_at + timedelta(seconds=CLOCK_SKEW_S):
            raise TokenExpired("expired")
        return principal

    async def verify_async(self, token: str) -> Principal:
        return self.verify(token)

    def open(self) -> None:
        """Raises VerifierUnavailable while it is not available. There is nothing to connect."""
        if not self.is_available:
            raise VerifierUnavailable

    def close(self) -> None:
        self.is_available = False

    @property
    def is_ready(self) -> bool:
        return self.is_available

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall(), timezone.utc)

    def _principal_of(self, token: str) -> Principal:
        principal = self._issued.get(token)
        if principal is None:
            raise ValueError("this TestVerifier has not issued the token")
        return principal


def _client(now: datetime, *, client_id: str, scopes: Collection[str] = ()) -> dict[str, Any]:
    if isinstance(scopes, str):
        raise TypeError("scopes is a collection of names")
    if not client_id or not scopes:
        raise ValueError("a client needs a client_id and at least one scope")
    client = {"kind": "client", "client_id": client_id, "scopes": tuple(scopes), "user_id": "", "role": ""}
    return client | {"amr": (), "acr": 1, "auth_time": now}


def _user(
    now: datetime,
    *,
    user_id: str = "",
    role: str = "",
    acr: int = 1,
    amr: Collection[str] | None = None,
    auth_time: datetime | None = None,
) -> dict[str, Any]:
    if not user_id:
        raise ValueError("a user needs a user_id")
    if not ROLE_NAME.fullmatch(role):
        raise ValueError(f"a user needs a role, named as USER or MERCHANT_CLERK, not {role!r}")
    if acr not in _AMR:
        raise ValueError(f"acr is 1, 2 or 3, not {acr!r}")
    if isinstance(amr, str):
        raise TypeError("amr is a collection of names")
    user = {"kind": "user", "user_id": user_id, "role": role, "client_id": "", "scopes": ()}
    times = {"auth_time": now if auth_time is None else auth_time}
    return user | {"acr": acr, "amr": _AMR[acr] if amr is None else tuple(amr)} | times
