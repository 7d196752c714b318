"""Verifies access tokens by a call, then from memory. The rules are those of docs/verify-tokens.md."""

import asyncio
import concurrent.futures
import json
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple, Self, TypeVar

import grpc

from ._decode import Refusal, decode
from ._gen.token_service_pb2 import (
    VerifyTokenRequest,
    VerifyTokenResponse,
    WatchRevocationsRequest,
    WatchRevocationsResponse,
)
from ._relay import Relay, TlsFiles
from ._revocations import MAX_KEEP_S, Revocations
from ._rules import Screening, claimed_audience, is_api_key, is_token_shape, screen_token
from ._watch import KEY_WAIT_S, MAX_KEY_WAITING_THREADS, QUIET_S, RevocationWatch, Stream
from .errors import TokenExpired, TokenRefused, VerifierUnavailable
from .principal import CLOCK_SKEW_S, Principal

MAX_CALLS_IN_FLIGHT: Final = 1_000
MAX_REFUSED_TOKENS: Final = 2_000
KEEP_REFUSED_S: Final = 10.0
"""A refusal may be temporary: clock skew, or a new key."""
_AUDIENCE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
_SERVICE: Final = "/gatehouse.token.v1.TokenService/"
_CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "token-service"),
    (
        "grpc.service_config",
        json.dumps({
            # 100 at once: as many as may be under way at a replica that is killed.
            "retryThrottling": {"maxTokens": 200, "tokenRatio": 0.1},
            "methodConfig": [{
                "name": [{"service": "gatehouse.token.v1.TokenService", "method": "VerifyToken"}],
                "retryPolicy": {
                    "maxAttempts": 2,
                    "initialBackoff": "0.02s",
                    "maxBackoff": "0.1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }],
        }),
    ),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_http_proxy", 0),
    # A dead peer is found within five seconds.
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)

T = TypeVar("T")

Outcome = Principal | Refusal | Exception
"""An exception: the call failed."""


class _Known(NamedTuple):
    principal: Principal
    asked_s: float
    until_s: float
    until_wall_s: float
    """Wall-clock time also advances during a suspend."""


class _Pending(NamedTuple):
    future: Future[Any]
    timeout_s: float
    resume: Callable[[], "Principal | _Pending"]
    is_for_key: bool = False


class TokenVerifier:
    """Verifies access tokens. One for each process, for all its threads and event loops.

    The first sight of a token is a call of token-service; then it is answered from memory until it expires, checked each
    time against the stream of revocations. While token-service has been silent for 3 s every token needs a call.

    `audience` is this service's name in the gateway's routes file: tokens for others, also for the issuer, and API keys
    are then invalid. None: tokens for the issuer. `accepts_issuer` accepts those as well, while a running service gets
    an audience. A token that is bound to a key is always invalid.

    Threads and the connection begin with `open`, a `with` block or the first token, so a verifier may be made before a
    fork (gunicorn's `preload_app`), but not used before it: in the child it then raises VerifierUnavailable.
    """

    def __init__(
        self,
        address: str,
        tls: TlsFiles,
        *,
        audience: str | None = None,
        accepts_issuer: bool = False,
        max_cached_tokens: int = 50_000,
        max_revocations: int = 1_000_000,
        call_timeout_s: float = 0.8,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Raises OSError if the files are unusable."""
        if audience is not None and _AUDIENCE.fullmatch(audience) is None:
            raise ValueError("audience must be a URI or a name such as payments, of at most 200 characters")
        self._relay = Relay(address, "token-service", tls)
        self._audience = audience
        self._accepts_issuer = accepts_issuer
        self._max_cached_tokens = max_cached_tokens
        self._call_timeout_s = call_timeout_s
        self._monotonic = monotonic
        self._wall = wall
        self._lock = threading.RLock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._refused: OrderedDict[str, tuple[Refusal, float]] = OrderedDict()
        self._asking: dict[str, Future[Outcome]] = {}
        self._key_waiting_threads = threading.BoundedSemaphore(MAX_KEY_WAITING_THREADS)
        self._revoked = Revocations(max_revocations, monotonic, wall)
        self._watch = RevocationWatch(
            self._revoked, self._lock, self._open_stream, monotonic, lambda: self._relay.drop_quiet(QUIET_S)
        )
        self._opened_by: int | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Connects in the background. Not needed: the first token does it."""
        if self._opened_by == os.getpid() and not self._is_closed:
            return
        # Before the lock, which a thread of the parent may have held at the fork.
        if self._opened_by not in (None, os.getpid()):
            raise VerifierUnavailable("the verifier was used before a fork: use it in the workers only")
        with self._lock:
            if self._is_closed:
                raise VerifierUnavailable("the verifier is closed")
            if self._opened_by is not None:
                return
            try:
                target = self._relay.start()
            except OSError as error:
                raise VerifierUnavailable("the connection cannot be made") from error
            self._channel = grpc.insecure_channel(target, _CHANNEL_OPTIONS)
            self._verify_token: grpc.UnaryUnaryMultiCallable[VerifyTokenRequest, VerifyTokenResponse] = (
                self._channel.unary_unary(
                    f"{_SERVICE}VerifyToken",
                    request_serializer=VerifyTokenRequest.SerializeToString,
                    response_deserializer=VerifyTokenResponse.FromString,
                )
            )
            self._watch_revocations: grpc.UnaryStreamMultiCallable[
                WatchRevocationsRequest, WatchRevocationsResponse
            ] = self._channel.unary_stream(
                f"{_SERVICE}WatchRevocations",
                request_serializer=WatchRevocationsRequest.SerializeToString,
                response_deserializer=WatchRevocationsResponse.FromString,
            )
            self._opened_by = os.getpid()
            self._watch.start()

    def close(self) -> None:
        """Ends the stream, the connection and the threads."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._opened_by == os.getpid():
            self._watch.close()
            self._channel.close()
            self._relay.close()

    @property
    def is_ready(self) -> bool:
        """For readiness: false until all revocations have been read, and while token-service is silent.

        After a revocation of an unknown kind it stays true: every token then needs a call, which works.
        """
        self.open()
        with self._lock:
            return self._revoked.is_heard

    def now(self) -> datetime:
        """Time of token-service, at most 3 s ahead: for `RouteAuth.check`.

        The clock of this machine, which may be wrong, counts before the first message, and in silence if it is later.
        """
        with self._lock:
            return datetime.fromtimestamp(self._revoked.now_s, timezone.utc)

    def verify(self, token: str) -> Principal:
        """Says whose the token is, or raises TokenRefused (TokenExpired) or VerifierUnavailable."""
        answer = self._look_up(token)
        while isinstance(answer, _Pending):
            if answer.is_for_key:
                self._wait_for_key(answer)
            else:
                concurrent.futures.wait([answer.future], answer.timeout_s)
            answer = answer.resume()
        return answer

    def _wait_for_key(self, waiting: _Pending) -> None:
        """In few threads at a time: the others are for tokens of known keys."""
        if not self._key_waiting_threads.acquire(blocking=False):
            raise VerifierUnavailable("too many threads wait for keys")
        try:
            concurrent.futures.wait([waiting.future], waiting.timeout_s)
        finally:
            self._key_waiting_threads.release()

    async def verify_async(self, token: str) -> Principal:
        """As `verify`, without blocking the event loop."""
        answer = self._look_up(token)
        while isinstance(answer, _Pending):
            # Unlike wait_for it leaves the future, which others share, alone.
            await asyncio.wait([asyncio.wrap_future(answer.future)], timeout=answer.timeout_s)
            answer = answer.resume()
        return answer

    def _look_up(self, token: str) -> Principal | _Pending:
        self.open()
        with self._lock:
            known = self._known.get(token)
            if known is None:
                return self._look_at_unknown(token)
            now_s = self._monotonic()
            is_alive = now_s < known.until_s and self._wall() < known.until_wall_s
            # A later revocation may have been forgotten.
            is_alive = is_alive and now_s < known.asked_s + self._revoked.least_kept_s
            if self._revoked.ends(known.principal):
                del self._known[token]
                if not is_api_key(token):
                    raise _refusal("revoked")
                return self._ask(token)  # its credential may be live again under another id
            if not is_alive:
                del self._known[token]
                return self._ask(token)
            if not self._revoked.is_fresh(known.principal) or not self._revoked.is_complete:
                return self._ask(token)
            self._known.move_to_end(token)
            return known.principal

    def _look_at_unknown(self, token: str) -> Principal | _Pending:
        screening = self._screen(token)
        if screening == "expired" or screening == "invalid":
            raise _refusal(screening)
        if screening == "unknown_key":
            self._assert_connected()
            waiting = self._watch.read_again()
            if waiting is None:
                raise VerifierUnavailable("too many tokens of unknown keys")
            return _Pending(waiting, KEY_WAIT_S, lambda: self._after_read(token, waiting), is_for_key=True)
        refused = self._refused.get(token)
        if refused is not None and self._monotonic() < refused[1]:
            raise _refusal(refused[0])
        return self._ask(token)

    def _screen(self, token: str) -> Screening:
        if is_api_key(token) and (self._audience is None or self._accepts_issuer):
            return "plausible"
        if not is_token_shape(token):
            return "invalid"
        rules = self._revoked.rules
        if rules is None:
            return "plausible"
        return screen_token(token, rules, self._revoked.server_now_s, self._audience_for(token))

    def _after_read(self, token: str, waiting: Future[None]) -> Principal | _Pending:
        if not waiting.done():
            raise VerifierUnavailable("token-service is silent")
        with self._lock:
            if self._screen(token) == "unknown_key":
                raise _refusal("invalid")
            return self._ask(token)

    def _ask(self, token: str) -> _Pending:
        """One call in flight for each token."""
        shared = self._asking.get(token)
        if shared is None:
            self._assert_connected()
            if len(self._asking) >= MAX_CALLS_IN_FLIGHT:
                raise VerifierUnavailable("too many tokens are being verified")
            shared = self._asking[token] = Future()
            audience, asked_s = self._audience_for(token), self._monotonic()
            try:
                call = self._verify_token.future(
                    VerifyTokenRequest(token=token, audience=audience), timeout=self._call_timeout_s
                )
            except ValueError as error:  # the channel is closed
                del self._asking[token]
                raise VerifierUnavailable("the verifier is closed") from error
            call.add_done_callback(lambda done: self._answered(token, audience, asked_s, done))
        resume = shared
        return _Pending(shared, self._call_timeout_s + 1, lambda: _verdict(resume))

    def _assert_connected(self) -> None:
        """Without it each call would wait for its deadline. The stream goes on to try."""
        if self._watch.is_silent and not self._relay.is_connected:
            raise VerifierUnavailable("token-service is silent")

    def _answered(
        self, token: str, audience: str | None, asked_s: float, call: "grpc.Future[VerifyTokenResponse]"
    ) -> None:
        outcome: Outcome
        try:
            outcome = self._take(token, call.result(), audience, asked_s)
        except Exception as error:  # whatever it was, nobody may wait for ever
            outcome = error
        with self._lock:
            shared = self._asking.pop(token)
        shared.set_result(outcome)

    def _take(self, token: str, response: VerifyTokenResponse, audience: str | None, asked_s: float) -> Outcome:
        outcome = decode(response, audience)
        with self._lock:
            if not isinstance(outcome, Principal):
                self._known.pop(token, None)
                _put(self._refused, token, (outcome, self._monotonic() + KEEP_REFUSED_S), MAX_REFUSED_TOKENS)
                return outcome
            # A revocation during the call is newer than the answer.
            if self._revoked.ends(outcome):
                self._known.pop(token, None)
                return "revoked"
            expires_at = outcome.expires_at.timestamp()
            left_s = min(response.expires_in_ms / 1000, MAX_KEEP_S)
            entry = _Known(outcome, asked_s, asked_s + left_s, expires_at + CLOCK_SKEW_S)
            _put(self._known, token, entry, self._max_cached_tokens)
            return outcome

    def _audience_for(self, token: str) -> str | None:
        """None: the issuer."""
        is_own = not self._accepts_issuer or claimed_audience(token) == self._audience
        return self._audience if is_own else None

    def _open_stream(self, request: WatchRevocationsRequest) -> Stream:
        return self._watch_revocations(request)


def _put(memory: OrderedDict[str, T], token: str, value: T, most: int) -> None:
    memory[token] = value
    memory.move_to_end(token)
    if len(memory) > most:
        memory.popitem(last=False)


def _refusal(reason: Refusal) -> TokenRefused:
    return TokenExpired(reason) if reason == "expired" else TokenRefused(reason)


def _verdict(shared: Future[Outcome]) -> Principal:
    if not shared.done():
        raise VerifierUnavailable("no answer of token-service")
    outcome = shared.result()
    if isinstance(outcome, Principal):
        return outcome
    if isinstance(outcome, Exception):
        raise VerifierUnavailable("token-service cannot be asked") from outcome
    raise _refusal(outcome)
