"""What is revoked, as far as this process knows, and how far that is."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ._gen.token_service_pb2 import PartState, WatchRevocationsRequest, WatchRevocationsResponse
from ._rules import TokenRules
from .principal import Principal

STALE_AFTER_S: Final = 3.0
"""After this silence, unknown revocations may exist."""
MAX_KEEP_S: Final = 3610.0
"""Longest life of an access token, clock skew included."""
MAX_MESSAGE_AGE_S: Final = 2.0
"""A slow connection start counts as lag for the life of a stream."""
MAX_MESSAGE_AHEAD_S: Final = 1.0
"""A read further in the future proves that this machine was suspended."""
WALL_CLOCK_ROOM_S: Final = 2.0

_ALL_SLOTS: Final = b"\xff" * 512
"""What one database has that is the only one."""
_SLOT: Final = re.compile(r"[0-9a-f]{3}")

_log = logging.getLogger("gatehouse_token_client")


@dataclass(slots=True)
class _Part:
    """What is known of the users in one database (docs/decisions/parts.md)."""

    read_at: float = float("-inf")
    """When token-service last read its log: a lower bound."""
    heard_at_wall: float = 0.0
    slots: bytes = b""
    """Of that read."""
    said: bytes = b""
    """Slots that count with the next read. Empty: unchanged."""

    def has(self, slot: int) -> bool:
        return slot // 8 < len(self.slots) and self.slots[slot // 8] & 0x80 >> slot % 8 != 0


class Revocations:
    """By the monotonic clock: a jump of the wall clock must not drop a revocation. The caller holds a lock."""

    def __init__(self, max_entries: int, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._monotonic = monotonic
        self._wall = wall
        self._sequence = 0
        self._tip = ""
        self._until: dict[tuple[str, str], float] = {}
        self._forgot_at = self._incomplete_until = float("-inf")
        self._knows_all_kinds = True
        self.least_kept_s = MAX_KEEP_S
        """The shortest that was said. While the lives of tokens are changed, memory may have tokens of the longer one."""
        self._parts = {0: _Part()}
        self._server_read_at: float | None = None
        """Of part 0, as the rules."""
        self._rules: TokenRules | None = None
        self._is_first_message = True

    def next_request(self) -> WatchRevocationsRequest:
        self._is_first_message = True
        return WatchRevocationsRequest(after_sequence=self._sequence, tip=self._tip)

    def is_fresh(self, principal: Principal) -> bool:
        """Whether every revocation older than 3 s that can concern this principal is known, and understood."""
        if not self.is_heard or not self._knows_all_kinds:
            return False
        if principal.kind == "client":
            return True
        digits = principal.session_id[-3:]
        slot = int(digits, 16) if _SLOT.fullmatch(digits) else 0
        # During a move two parts may have it: what either knows is all there was at its read.
        return any(part.has(slot) and self._is_heard(part) for part in self._parts.values())

    @property
    def is_heard(self) -> bool:
        """Whether all messages older than 3 s have come, of part 0, which has the keys."""
        return self._is_heard(self._parts[0])

    def _is_heard(self, part: _Part) -> bool:
        if self._monotonic() - part.read_at > STALE_AFTER_S:
            return False
        # The monotonic clock may stop during a suspend.
        return self._wall() - part.heard_at_wall <= STALE_AFTER_S + WALL_CLOCK_ROOM_S

    @property
    def read_at(self) -> float:
        """When token-service last read its log: a lower bound."""
        return self._parts[0].read_at

    @property
    def is_complete(self) -> bool:
        """False after a lack of room, until no affected token is valid."""
        return self._monotonic() >= self._incomplete_until

    @property
    def rules(self) -> TokenRules | None:
        """None while unknown, or if token-service is too old."""
        return self._rules if self.is_heard else None

    @property
    def server_now_s(self) -> float | None:
        """Time of token-service, at most 3 s ahead."""
        return self._server_time_s if self.is_heard else None

    @property
    def now_s(self) -> float:
        """Time of token-service. In silence that of this machine if it is later: the monotonic clock may stop during a suspend."""
        reported_s = self._server_time_s
        if reported_s is not None and (self.is_heard or reported_s > self._wall()):
            return reported_s
        return self._wall()

    @property
    def _server_time_s(self) -> float | None:
        return None if self._server_read_at is None else self._server_read_at + self._monotonic() - self.read_at

    def ends(self, principal: Principal) -> bool:
        """By its session or credential, its key, or, of a client, this one token (RFC 7009)."""
        sessions = [principal.session_id]
        if principal.kind == "client":
            sessions += [principal.token_id, principal.origin_token_id]
        keys = [principal.key_id, principal.origin_key_id]
        return any(("key_id", id) in self._until for id in keys) or any(("session_id", id) in self._until for id in sessions)

    def apply(self, message: WatchRevocationsResponse, opened_s: float) -> bool:
        """False if the stream is to be opened anew. `opened_s`: when it was opened, monotonic."""
        received_s = self._monotonic()
        self._forget_ended(received_s)
        self._take_revocations(message, received_s)
        self._take_rules(message)
        self._sequence, self._tip = message.sequence, message.tip
        if message.HasField("part"):
            return self._hear(message.part, opened_s, received_s)
        self._parts = {0: self._parts[0]}
        state = PartState(caught_up=message.caught_up, elapsed_ms=message.elapsed_ms, slots=_ALL_SLOTS)
        if message.HasField("read_at"):
            state.read_at.CopyFrom(message.read_at)
        return self._hear(state, opened_s, received_s)

    def _hear(self, state: PartState, opened_s: float, received_s: float) -> bool:
        part = self._parts.setdefault(state.number, _Part())
        part.said = state.slots or part.said
        if not state.caught_up:
            return True
        # The read was not earlier, because the stream began after this request.
        read_s = opened_s + state.elapsed_ms / 1000
        if read_s > received_s + MAX_MESSAGE_AHEAD_S:
            return False
        if read_s >= part.read_at:
            part.read_at = min(read_s, received_s)
            part.heard_at_wall = self._wall()
            part.slots, part.said = part.said or part.slots, b""
            if state.number == 0:
                has_time = state.HasField("read_at")
                self._server_read_at = state.read_at.ToNanoseconds() / 1e9 if has_time else None
        return received_s - read_s <= MAX_MESSAGE_AGE_S

    def _take_revocations(self, message: WatchRevocationsResponse, received_s: float) -> None:
        least_s = message.keep_s or MAX_KEEP_S
        self.least_kept_s = min(self.least_kept_s, least_s)
        for revocation in message.revocations:
            kind = revocation.WhichOneof("target")
            if kind is None:
                self._distrust()
                continue
            has_end = revocation.HasField("expires_at")
            # The wall clock may only extend this.
            reported_s = revocation.expires_at.ToNanoseconds() / 1e9 - self._wall() if has_end else MAX_KEEP_S
            self._add((kind, getattr(revocation, kind)), received_s + max(least_s, min(reported_s, MAX_KEEP_S)))

    def _take_rules(self, message: WatchRevocationsResponse) -> None:
        if message.HasField("rules"):
            keys = {key.key_id: key.algorithm for key in message.rules.keys}
            self._rules = TokenRules(message.rules.issuer, keys)
        elif self._is_first_message:
            self._rules = None
        self._is_first_message = False

    def _distrust(self) -> None:
        """Unknown targets cannot be checked: token-service must verify every token."""
        if self._knows_all_kinds:
            _log.error("token-service revokes something that this version does not know: update it")
        self._knows_all_kinds = False

    def _add(self, target: tuple[str, str], until_s: float) -> None:
        if target in self._until or len(self._until) < self._max_entries:
            self._until[target] = max(until_s, self._until.get(target, until_s))
        else:
            self._incomplete_until = max(until_s, self._incomplete_until)

    def _forget_ended(self, now_s: float) -> None:
        if now_s - self._forgot_at < 1:
            return
        self._forgot_at = now_s
        for target in [target for target, until_s in self._until.items() if until_s < now_s]:
            del self._until[target]
