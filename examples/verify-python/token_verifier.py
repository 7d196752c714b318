"""Verifies Gatehouse access tokens in a Python service (asyncio)."""

import asyncio
import base64
import json
import logging
import random
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import NoReturn

import grpc

from gatehouse.token.v1 import principal_pb2, token_service_pb2, token_service_pb2_grpc

STALE_AFTER_S = 3.0
"""Silence for this long means that revocations may exist that this process has not heard of."""
SILENCE_S = 2.0
"""Four of the server's heartbeats: then the stream is opened anew."""
REOPEN_MIN_S, REOPEN_MAX_S = 0.05, 1.0
MAX_KEEP_S = 3610.0
"""No access token lives longer, and no clock differs by more."""
MAX_MESSAGE_AGE_S = 2.0
"""Beyond this age of a message the stream is opened anew: its connection may have been slow to open."""
MAX_MESSAGE_AHEAD_S = 1.0
"""A message that tells of a read so far ahead proves nothing: this machine was suspended."""
MAX_CALLS_IN_FLIGHT = 1_000
MAX_REVOCATIONS = 1_000_000
MAX_TOKEN_CHARACTERS = 4096

_TOKEN_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+|gh_[0-9a-f]{32}_[A-Za-z0-9_-]{43}")
_ROLES = {
    principal_pb2.ROLE_USER: "USER",
    principal_pb2.ROLE_ADMIN: "ADMIN",
    principal_pb2.ROLE_AUDITOR: "AUDITOR",
}
_ACR_PREFIX = "urn:gatehouse:acr:"
_LEVELS = {f"{_ACR_PREFIX}{level}": level for level in (1, 2, 3)}
_REASONS = {
    token_service_pb2.INACTIVE_REASON_EXPIRED: "expired",
    token_service_pb2.INACTIVE_REASON_REVOKED: "revoked",
}
_SERVICE_CONFIG = """{
  "loadBalancingConfig": [{ "round_robin": {} }],
  "retryThrottling": { "maxTokens": 10, "tokenRatio": 0.1 },
  "methodConfig": [{
    "name": [{ "service": "gatehouse.token.v1.TokenService", "method": "VerifyToken" }],
    "retryPolicy": {
      "maxAttempts": 2, "initialBackoff": "0.02s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
}"""

_log = logging.getLogger(__name__)


class TokenRefused(Exception):
    """The token is not good: answer 401. `reason` is `invalid`, `expired` or `revoked`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the token is {reason}")
        self.reason = reason


class VerifierUnavailable(Exception):
    """The token's state cannot be known now: answer 503, never 401."""


@dataclass(frozen=True)
class Principal:
    """Who a verified access token or API key speaks for."""

    kind: str
    """`user` or `client` (a program)."""
    user_id: str
    """Of a client: its id."""
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
    """Of the token that this one was exchanged for, and that ends it. Empty for others."""
    key_id: str
    """Empty for an API key."""
    amr: tuple[str, ...]
    """How the user authenticated (RFC 8176)."""
    acr: int
    """The session's level of assurance: 1 one factor, 2 two factors, 3 a passkey with user verification."""
    auth_time: datetime
    """The last moment at which the session reached `acr`."""
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class Demand:
    """What a handler asks of the session."""

    acr: int
    max_age_s: int | None = None
    """Of the last proof of the session's level."""

    def is_met(self, principal: Principal, now: datetime) -> bool:
        """Decides from the principal alone. A client, which has no session to step up, meets none."""
        if principal.kind == "client":
            return False
        age_s = (now - principal.auth_time).total_seconds()
        return principal.acr >= self.acr and (self.max_age_s is None or age_s <= self.max_age_s)

    @property
    def challenge(self) -> str:
        """`WWW-Authenticate` of a 401 `step_up_required` (RFC 9470 section 3)."""
        age = "" if self.max_age_s is None else f", max_age={self.max_age_s}"
        return f'Bearer error="insufficient_user_authentication", acr_values="{_ACR_PREFIX}{self.acr}"{age}'


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: this process's certificate and key, and the private CA that signs those of both ends."""

    cert: Path
    key: Path
    ca: Path

    def read(self) -> tuple[bytes, bytes, bytes]:
        return self.cert.read_bytes(), self.key.read_bytes(), self.ca.read_bytes()


class Revocations:
    """What is revoked, as far as this process knows, and how far that is."""

    def __init__(self, max_entries: int = MAX_REVOCATIONS) -> None:
        self.sequence = 0
        self.tip = ""
        self._max_entries = max_entries
        self._until: dict[tuple[str, str], float] = {}
        self._heard_at = float("-inf")
        self._has_known_all = False
        self._is_incomplete = False
        self._forgot_at = float("-inf")

    def apply(
        self, message: token_service_pb2.WatchRevocationsResponse, opened_s: float, monotonic_s: float, now_s: float
    ) -> bool:
        """False if the stream is to be opened anew. `opened_s`: when it was opened, monotonic."""
        least_s = message.keep_s or MAX_KEEP_S
        for revocation in message.revocations:
            kind = revocation.WhichOneof("target")
            if kind is None:
                self._distrust("token-service revokes something this version does not know: update it")
                continue
            has_end = revocation.HasField("expires_at")
            told_s = revocation.expires_at.seconds + 1 - now_s if has_end else MAX_KEEP_S
            # A wall clock may only make this longer, and not beyond any token's life.
            keep_s = max(least_s, min(told_s, MAX_KEEP_S))
            self._add((kind, getattr(revocation, kind)), monotonic_s + keep_s)
        self._forget_ended(monotonic_s)
        self.sequence, self.tip = message.sequence, message.tip
        if not message.caught_up:
            return True
        # The server began the stream after it was opened here, so it read the log at this moment or later.
        read_s = opened_s + message.elapsed_ms / 1000 if message.HasField("elapsed_ms") else monotonic_s
        if read_s > monotonic_s + MAX_MESSAGE_AHEAD_S:
            return False
        self._has_known_all = True
        self._heard_at = max(self._heard_at, min(read_s, monotonic_s))
        return monotonic_s - read_s <= MAX_MESSAGE_AGE_S

    def has(self, session_id: str, key_id: str) -> bool:
        return ("session_id", session_id) in self._until or ("key_id", key_id) in self._until

    def has_any(self, principal: Principal) -> bool:
        """Session, credential or key, or this one token of a client (RFC 7009)."""
        token_ids = (principal.token_id, principal.origin_token_id)
        is_token_revoked = principal.kind == "client" and any(self.has(token_id, "") for token_id in token_ids)
        return is_token_revoked or self.has(principal.session_id, principal.key_id)

    def is_fresh(self, monotonic_s: float) -> bool:
        """Whether everything revoked more than 3 s ago is known here."""
        is_recent = monotonic_s - self._heard_at <= STALE_AFTER_S
        return self._has_known_all and not self._is_incomplete and is_recent

    def _add(self, target: tuple[str, str], until_s: float) -> None:
        if target in self._until or len(self._until) < self._max_entries:
            self._until[target] = max(until_s, self._until.get(target, float("-inf")))
        else:
            self._distrust("too many revocations to keep")

    def _distrust(self, why: str) -> None:
        if not self._is_incomplete:
            _log.error("%s; every token is asked for from now on", why)
        self._is_incomplete = True

    def _forget_ended(self, monotonic_s: float) -> None:
        if monotonic_s - self._forgot_at < 1:
            return
        self._forgot_at = monotonic_s
        self._until = {target: until_s for target, until_s in self._until.items() if until_s >= monotonic_s}


class TokenVerifier:
    """Verifies access tokens: `async with TokenVerifier(...) as verifier: await verifier.verify(token)`.

    A token's first sight is a VerifyToken call; after that it is answered from memory until it expires, checked each
    time against the revocations that WatchRevocations tells. While token-service has been silent for 3 s memory is not
    trusted and every token is asked for. For one event loop.

    `server_name` must be a DNS name in token-service's certificate that no other service's certificate has: gRPC for
    Python checks host names and cannot check the SPIFFE name. See README.md.

    `audience` is this service's name in the gateway's routes file: tokens for others, also for the issuer, are invalid.
    None: tokens for the issuer are verified. `accepts_issuer` accepts those as well, while a service that runs gets its
    audience.
    """

    def __init__(
        self,
        address: str,
        tls: TlsFiles,
        server_name: str,
        *,
        audience: str | None = None,
        accepts_issuer: bool = False,
        max_cached_tokens: int = 50_000,
        call_timeout_s: float = 0.8,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._tls = tls
        self._server_name = server_name
        self._audience = audience
        self._accepts_issuer = accepts_issuer
        self._max_cached_tokens = max_cached_tokens
        self._call_timeout_s = call_timeout_s
        self._monotonic = monotonic
        self._now = now
        self._known: OrderedDict[str, Principal] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Principal]] = {}
        self._revoked = Revocations()
        self._is_closed = False
        self._material = tls.read()  # a process must not start without its identity

    async def __aenter__(self) -> "TokenVerifier":
        self._open_channel()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._channel.close()

    @property
    def is_ready(self) -> bool:
        """False until the revocation log is fully known, and while token-service is silent: a readiness check."""
        return self._revoked.is_fresh(self._monotonic())

    async def verify(self, token: str) -> Principal:
        """Says whose the token is, or raises TokenRefused or VerifierUnavailable."""
        principal = self._known.get(token)
        if principal is None:
            if len(token) > MAX_TOKEN_CHARACTERS or _TOKEN_SHAPE.fullmatch(token) is None:
                raise TokenRefused("invalid")
            return await self._ask_once(token)
        if self._revoked.has_any(principal):
            if principal.key_id != "":
                self._refuse(token, "revoked")
            self._known.pop(token)  # the API key may live on as another credential
            return await self._ask_once(token)
        if principal.expires_at.timestamp() <= self._now():
            self._known.pop(token)  # token-service says when a token is over, at first sight and afterwards
            return await self._ask_once(token)
        if not self.is_ready:
            return await self._ask_once(token)
        self._known.move_to_end(token)
        return principal

    def _refuse(self, token: str, reason: str) -> NoReturn:
        self._known.pop(token, None)
        raise TokenRefused(reason)

    async def _ask_once(self, token: str) -> Principal:
        """One call in flight a token. The call belongs to no single caller: a cancelled one takes it from nobody."""
        asking = self._asking.get(token)
        if asking is None:
            if len(self._asking) >= MAX_CALLS_IN_FLIGHT:
                raise VerifierUnavailable("too many tokens are being verified")
            asking = asyncio.create_task(self._ask(token))
            self._asking[token] = asking
            asking.add_done_callback(lambda task: self._answered(token, task))
        return await asyncio.shield(asking)

    def _answered(self, token: str, task: asyncio.Task[Principal]) -> None:
        del self._asking[token]
        if not task.cancelled():
            task.exception()  # seen, also if nobody waits any more

    async def _ask(self, token: str) -> Principal:
        audience = self._audience_for(token)
        request = token_service_pb2.VerifyTokenRequest(token=token, audience=audience)
        try:
            answer = await self._stub.VerifyToken(request, timeout=self._call_timeout_s)
        except (grpc.RpcError, grpc.aio.UsageError) as error:
            raise VerifierUnavailable("token-service cannot be asked") from error
        except asyncio.CancelledError as error:  # its channel was closed
            raise VerifierUnavailable("the verifier was closed") from error
        try:
            principal = _decode(answer, audience)
        except TokenRefused as refusal:
            self._refuse(token, refusal.reason)
        # A revocation that arrived while the answer was under way is newer than the answer.
        if self._revoked.has_any(principal):
            self._refuse(token, "revoked")
        self._known[token] = principal
        self._known.move_to_end(token)
        if len(self._known) > self._max_cached_tokens:
            self._known.popitem(last=False)
        return principal

    def _audience_for(self, token: str) -> str | None:
        """None: the issuer."""
        is_own = not self._accepts_issuer or _claimed_audience(token) == self._audience
        return self._audience if is_own else None

    async def _watch(self) -> None:
        """Keeps the revocations up to date, resuming by sequence after each break."""
        pause_s = REOPEN_MIN_S
        # The flag, because a cancellation that meets the end of a call is lost in it.
        while not self._is_closed:
            self._renew_channel()
            try:
                opened_s = self._monotonic()
                async for message in self._messages():
                    if not self._revoked.apply(message, opened_s, self._monotonic(), self._now()):
                        break
                    pause_s = REOPEN_MIN_S
            except (grpc.RpcError, TimeoutError) as error:
                _log.warning("the revocation stream broke: %s", _text(error))
            if self._is_closed:
                return
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(pause_s * 2, REOPEN_MAX_S)

    async def _messages(self) -> AsyncIterator[token_service_pb2.WatchRevocationsResponse]:
        """One stream, until it ends or falls silent."""
        request = token_service_pb2.WatchRevocationsRequest(
            after_sequence=self._revoked.sequence, tip=self._revoked.tip
        )
        stream = self._stub.WatchRevocations(request)
        try:
            while True:
                async with asyncio.timeout(SILENCE_S):
                    message = await stream.read()
                if message is grpc.aio.EOF:
                    return
                yield message
        finally:
            stream.cancel()

    def _renew_channel(self) -> None:
        """gRPC for Python reads certificates once a channel. token-service ends connections after ten minutes."""
        try:
            material = self._tls.read()
        except OSError as error:
            _log.error("certificate files cannot be used; the last good ones stay: %s", error)
            return
        if material == self._material:
            return
        self._material = material
        before = self._channel
        self._open_channel()
        self._closing = asyncio.create_task(before.close(grace=self._call_timeout_s))

    def _open_channel(self) -> None:
        cert, key, ca = self._material
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        options = [
            ("grpc.ssl_target_name_override", self._server_name),
            ("grpc.service_config", _SERVICE_CONFIG),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 2_000),
            ("grpc.max_reconnect_backoff_ms", 2_000),
            # Otherwise a new channel with the same arguments may get the old one's connection.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._channel = grpc.aio.secure_channel(f"dns:///{self._address}", credentials, options)
        self._stub = token_service_pb2_grpc.TokenServiceStub(self._channel)


def _claimed_audience(token: str) -> str | None:
    """What the token says itself; nobody has checked it."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        return None
    return claims.get("aud") if isinstance(claims, dict) else None


def _decode(answer: token_service_pb2.VerifyTokenResponse, audience: str | None = None) -> Principal:
    """What is missing or unknown in an answer means "deny"."""
    if not answer.active:
        raise TokenRefused(_REASONS.get(answer.reason, "invalid"))
    message = answer.principal
    # A token-service of the version before has not checked the audience.
    if audience is not None and message.audience != audience:
        raise TokenRefused("invalid")
    is_client = message.kind == principal_pb2.PRINCIPAL_KIND_CLIENT
    is_user = message.kind in (principal_pb2.PRINCIPAL_KIND_USER, principal_pb2.PRINCIPAL_KIND_UNSPECIFIED)
    has_ids = all((message.user_id, message.session_id, message.token_id))
    has_times = all(message.HasField(name) for name in ("issued_at", "expires_at"))
    # A proof of the token's key is not checked here.
    if not has_ids or not has_times or message.HasField("confirmation") or not (is_client or is_user):
        raise TokenRefused("invalid")
    # A token-service of the version before has the role as a number, and the methods for `acr`.
    role = "" if is_client else message.role_name or _ROLES.get(message.role, "")
    level = _LEVELS.get(message.acr) if message.acr else (2 if "mfa" in message.amr else 1)
    if is_client and (message.client_id != message.user_id or not message.scopes):
        raise TokenRefused("invalid")
    if is_user and not (role and level and message.key_id and message.HasField("auth_time")):
        raise TokenRefused("invalid")
    auth_time = message.issued_at if is_client else message.auth_time
    return Principal(
        kind="client" if is_client else "user",
        user_id=message.user_id,
        session_id=message.session_id,
        role=role,
        client_id=message.client_id if is_client else "",
        scopes=tuple(message.scopes) if is_client else (),
        token_id=message.token_id,
        origin_token_id=message.origin_token_id,
        key_id=message.key_id,
        amr=() if is_client else tuple(message.amr),
        acr=1 if is_client else level,
        auth_time=auth_time.ToDatetime(timezone.utc),
        issued_at=message.issued_at.ToDatetime(timezone.utc),
        expires_at=message.expires_at.ToDatetime(timezone.utc),
    )


def _text(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return "silence"
