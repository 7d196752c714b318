"""The rules of time, with clocks of the test."""

import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from conftest import make_principal

from gatehouse_token_client._decode import decode
from gatehouse_token_client._gen.token_service_pb2 import (
    Revocation,
    VerifyTokenResponse,
    WatchRevocationsResponse,
)
from gatehouse_token_client._revocations import Revocations
from gatehouse_token_client.principal import RouteAuth, AssuranceDemand, Principal


class Clocks:
    def __init__(self) -> None:
        self.monotonic_s = 1000.0
        self.wall_s = time.time()
        self.revoked = Revocations(1_000_000, lambda: self.monotonic_s, lambda: self.wall_s)
        self.revoked.next_request()

    def pass_s(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds

    def send(self, elapsed_s: float = 0, ago_s: float = 0, session: str = "", end_s: float = 0, keep_s: int = 910) -> bool:
        """A message of a stream that was opened `ago_s` ago."""
        message = WatchRevocationsResponse(caught_up=True, keep_s=keep_s, elapsed_ms=int(elapsed_s * 1000))
        if session:
            message.revocations.append(Revocation(session_id=session))
            message.revocations[0].expires_at.FromSeconds(int(end_s))
        return self.revoked.apply(message, self.monotonic_s - ago_s)

    def knows(self, session: str) -> bool:
        return self.revoked.ends(principal_of(session))


def principal_of(session: str) -> Principal:
    decoded = decode(VerifyTokenResponse(active=True, principal=make_principal({"session_id": session})), None)
    assert isinstance(decoded, Principal)
    return decoded


def test_three_seconds_count_from_the_read() -> None:
    clocks = Clocks()
    assert not clocks.revoked.is_fresh(principal_of("s"))
    clocks.send(elapsed_s=0.5, ago_s=1)
    clocks.pass_s(2.5)
    assert clocks.revoked.is_fresh(principal_of("s"))
    clocks.pass_s(0.01)
    assert not clocks.revoked.is_fresh(principal_of("s"))


def test_after_a_revocation_of_an_unknown_kind_memory_is_not_trusted_but_the_stream_is_heard() -> None:
    clocks = Clocks()
    message = WatchRevocationsResponse(caught_up=True, elapsed_ms=0, revocations=[Revocation(sequence=1)])
    assert clocks.revoked.apply(message, clocks.monotonic_s)
    assert clocks.revoked.is_heard
    assert not clocks.revoked.is_fresh(principal_of("s"))
    clocks.pass_s(3.1)
    assert not clocks.revoked.is_heard


def test_the_time_of_token_service_goes_on_in_silence_unless_this_machines_is_later() -> None:
    clocks = Clocks()
    assert clocks.revoked.now_s == clocks.wall_s
    message = WatchRevocationsResponse(caught_up=True)
    server_s = int(clocks.wall_s) + 3600
    message.read_at.FromSeconds(server_s)
    clocks.revoked.apply(message, clocks.monotonic_s)
    clocks.pass_s(10)
    assert clocks.revoked.server_now_s is None
    assert clocks.revoked.now_s == server_s + 10
    clocks.wall_s += 7200
    assert clocks.revoked.now_s == clocks.wall_s
    message.read_at.FromSeconds(1000)
    clocks.revoked.apply(message, clocks.monotonic_s)
    assert clocks.revoked.now_s == 1000


def test_a_proof_has_an_age_by_the_time_of_token_service() -> None:
    now = datetime.now(timezone.utc)
    for age_s, is_met in [(0, True), (300, True), (301, False), (-5, True), (-6, False)]:
        principal = replace(principal_of("s"), auth_time=now - timedelta(seconds=age_s))
        assert AssuranceDemand(1, max_age_seconds=300).is_met(principal, now) == is_met, age_s
        assert AssuranceDemand(1).is_met(principal)
    with pytest.raises(TypeError):
        RouteAuth(any_user=True, assurance=AssuranceDemand(1, max_age_seconds=300)).check(principal_of("s"))


def test_a_late_or_impossible_message_opens_the_stream_anew() -> None:
    clocks = Clocks()
    assert not clocks.send(elapsed_s=0, ago_s=2.1)
    assert clocks.revoked.is_fresh(principal_of("s"))
    clocks = Clocks()
    assert not clocks.send(elapsed_s=3, ago_s=1.9)
    assert not clocks.revoked.is_fresh(principal_of("s"))


def test_a_wall_clock_that_went_on_while_this_machine_slept_ends_the_trust() -> None:
    clocks = Clocks()
    clocks.send(elapsed_s=0)
    clocks.wall_s += 5
    assert clocks.revoked.is_fresh(principal_of("s"))
    clocks.wall_s += 0.1
    assert not clocks.revoked.is_fresh(principal_of("s"))


def test_a_revocation_is_kept_by_the_monotonic_clock_whatever_its_end_says() -> None:
    for end_s in (0.0, time.time() - 3600):
        clocks = Clocks()
        clocks.send(session="s", end_s=end_s)
        clocks.wall_s += 86_400
        clocks.pass_s(909)
        clocks.send()
        assert clocks.knows("s")
        clocks.pass_s(2)
        clocks.send()
        assert not clocks.knows("s")


def test_a_wall_clock_may_extend_it_to_the_longest_life_of_a_token() -> None:
    clocks = Clocks()
    clocks.send(session="s", end_s=clocks.wall_s + 86_400)
    clocks.pass_s(3_609)
    clocks.send()
    assert clocks.knows("s")
    clocks.pass_s(2)
    clocks.send()
    assert not clocks.knows("s")


def test_without_keep_s_it_is_kept_for_the_longest_life_of_a_token() -> None:
    clocks = Clocks()
    clocks.send(session="s", keep_s=0)
    clocks.pass_s(3_609)
    clocks.send(keep_s=0)
    assert clocks.knows("s")


def test_the_shortest_life_of_a_revocation_that_was_heard_counts() -> None:
    clocks = Clocks()
    assert clocks.revoked.least_kept_s == 3_610
    for keep_s in (910, 70, 910, 0):
        clocks.send(keep_s=keep_s)
    assert clocks.revoked.least_kept_s == 70


def test_rules_hold_for_the_stream_that_sent_them() -> None:
    clocks = Clocks()
    message = WatchRevocationsResponse(caught_up=True)
    message.rules.issuer = "https://auth.example"
    clocks.revoked.apply(message, clocks.monotonic_s)
    clocks.send()
    assert clocks.revoked.rules is not None
    clocks.revoked.next_request()
    clocks.send()
    assert clocks.revoked.rules is None


def test_the_servers_time_goes_on_by_the_monotonic_clock() -> None:
    clocks = Clocks()
    message = WatchRevocationsResponse(caught_up=True, elapsed_ms=0)
    message.read_at.FromDatetime(datetime(2030, 1, 1, tzinfo=timezone.utc))
    clocks.revoked.apply(message, clocks.monotonic_s)
    clocks.pass_s(2)
    expected = datetime(2030, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=2)
    assert clocks.revoked.server_now_s == expected.timestamp()
    clocks.pass_s(2)
    assert clocks.revoked.server_now_s is None
