"""Keeps the revocations up to date in a thread, resuming by sequence after each break."""

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Final, Protocol

import grpc

from ._gen.token_service_pb2 import WatchRevocationsRequest, WatchRevocationsResponse
from ._revocations import MAX_MESSAGE_AGE_S, Revocations

RECONNECT_MIN_S: Final = 0.05
RECONNECT_MAX_S: Final = 1.0
HEARTBEAT_S: Final = 0.5
"""The longest time between two messages of token-service."""
SILENCE_S: Final = 4 * HEARTBEAT_S
QUIET_S: Final = SILENCE_S - HEARTBEAT_S
"""A connection to a machine that has stopped may have been heard for one heartbeat longer than the stream."""
KEY_WAIT_S: Final = MAX_MESSAGE_AGE_S + HEARTBEAT_S
"""For a token of an unknown key: a stream that lags as much as it may reports the next read this late. Memory is trusted longer."""
MAX_KEY_WAITS: Final = 5_000
MAX_KEY_WAITING_THREADS: Final = 4
"""Servers have few threads, and a token of an unknown key costs nothing to make."""

_log = logging.getLogger("gatehouse_token_client")


class Stream(Protocol):
    def __iter__(self) -> Iterator[WatchRevocationsResponse]: ...

    def cancel(self) -> object: ...


class RevocationWatch:
    def __init__(
        self,
        revocations: Revocations,
        lock: threading.RLock,
        open_stream: Callable[[WatchRevocationsRequest], Stream],
        monotonic: Callable[[], float],
        on_silence: Callable[[], object],
    ) -> None:
        self._revocations = revocations
        self._lock = lock
        self._open_stream = open_stream
        self._monotonic = monotonic
        self._on_silence = on_silence
        self._waiting: deque[tuple[float, Future[None]]] = deque()
        self._is_closed = threading.Event()
        self._ended = threading.Event()
        self._pause_s = RECONNECT_MIN_S
        self._heard_at = 0.0
        """When the last message came, or this stream was opened."""
        self._message_at: float | None = None
        self._broken_by: object = None
        self._thread = threading.Thread(target=self._run, name="gatehouse-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_silent(self) -> bool:
        """Once it has been heard."""
        return self._message_at is not None and time.monotonic() - self._message_at > SILENCE_S

    def close(self) -> None:
        self._is_closed.set()
        self._ended.set()
        self._thread.join(timeout=5)

    def read_again(self) -> Future[None] | None:
        """Done after a read that began after this call. None without room. The caller holds the lock."""
        now_s = self._monotonic()
        while self._waiting and self._waiting[0][0] < now_s - KEY_WAIT_S:
            self._waiting.popleft()
        if len(self._waiting) >= MAX_KEY_WAITS:
            return None
        waiting: Future[None] = Future()
        self._waiting.append((now_s, waiting))
        return waiting

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._one_stream()
            except Exception:  # such as no room for a thread: without this one nothing would ever be heard again
                _log.exception("the revocation stream cannot be opened")
            pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, RECONNECT_MAX_S)
            self._is_closed.wait(pause_s * random.uniform(0.8, 1.2))

    def _one_stream(self) -> None:
        """Until it ends, falls silent, or is to be opened anew."""
        with self._lock:
            request = self._revocations.next_request()
        opened_s = self._monotonic()
        self._heard_at = time.monotonic()
        stream = self._open_stream(request)
        ended = self._ended = threading.Event()
        reader = threading.Thread(target=self._read, args=(stream, opened_s, ended), name="gatehouse-stream", daemon=True)
        try:
            reader.start()
            while not self._is_closed.is_set():
                left_s = self._heard_at + SILENCE_S - time.monotonic()
                if left_s <= 0:
                    self._on_silence()
                    break
                if ended.wait(left_s):
                    break
        finally:
            with self._lock:
                ended.set()
            stream.cancel()

    def _read(self, stream: Stream, opened_s: float, ended: threading.Event) -> None:
        try:
            for message in stream:
                with self._lock:
                    if ended.is_set() or not self._apply(message, opened_s):
                        return
                self._heard_at = self._message_at = time.monotonic()
                self._pause_s, self._broken_by = RECONNECT_MIN_S, None
        except grpc.RpcError as error:
            if not ended.is_set():
                self._log_break(error)
        except Exception:
            _log.exception("a message of the revocation stream cannot be read")
        finally:
            ended.set()

    def _log_break(self, error: grpc.RpcError) -> None:
        """As a warning only what is new: it goes on once a second at most."""
        code, text = (error.code(), error.details()) if isinstance(error, grpc.Call) else (None, str(error))
        level = logging.DEBUG if code == self._broken_by else logging.WARNING
        self._broken_by = code
        _log.log(level, "the revocation stream broke: %s", f"{code}: {text}")

    def _apply(self, message: WatchRevocationsResponse, opened_s: float) -> bool:
        stays = self._revocations.apply(message, opened_s)
        while self._waiting and self._waiting[0][0] <= self._revocations.read_at:
            self._waiting.popleft()[1].set_result(None)
        return stays
