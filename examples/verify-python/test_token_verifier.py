"""python -m unittest: the verifier against a token-service that answers as the test says."""

import asyncio
import base64
import json
import logging
import time
import unittest
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc

from gatehouse.token.v1 import principal_pb2, token_service_pb2, token_service_pb2_grpc
from token_verifier import Demand, Principal, Revocations, TlsFiles, TokenRefused, TokenVerifier, VerifierUnavailable

TOKEN = "header.payload.signature"
API_KEY = f"gh_{'0a' * 16}_{'A' * 43}"
CLIENT: dict[str, object] = {
    "kind": principal_pb2.PRINCIPAL_KIND_CLIENT, "user_id": "client-1", "client_id": "client-1",
    "session_id": "credential-1", "scopes": ["payments:read"], "role": None, "auth_time": None, "amr": None, "acr": None,
}
Update = token_service_pb2.WatchRevocationsResponse


class FakeTokenService(token_service_pb2_grpc.TokenServiceServicer):
    def __init__(self) -> None:
        self.calls = 0
        self.status: grpc.StatusCode | None = None
        self.life_s = 3600.0
        self.audience: str | None = None
        self.asked: list[str | None] = []
        self.acr, self.amr = "urn:gatehouse:acr:1", ["pwd"]
        self.change: dict[str, object] = {}
        self.is_active = True
        self.gate = asyncio.Event()
        self.gate.set()
        self.updates: asyncio.Queue[Update | None] = asyncio.Queue()
        self.resumed: asyncio.Queue[int] = asyncio.Queue()

    async def VerifyToken(self, request, context):
        self.calls += 1
        self.asked.append(request.audience if request.HasField("audience") else None)
        await self.gate.wait()
        if self.status is not None:
            await context.abort(self.status)
        principal = principal_pb2.Principal(
            user_id="user-1", session_id="session-1", role="ROLE_USER", token_id="token-1", key_id="key-1",
            acr=self.acr, amr=self.amr, audience=self.audience,
        )
        principal.auth_time.GetCurrentTime()
        principal.issued_at.GetCurrentTime()
        principal.expires_at.FromSeconds(int(time.time() + self.life_s))
        for name, value in self.change.items():
            principal.ClearField(name)
            if value is not None:
                principal.MergeFrom(principal_pb2.Principal(**{name: value}))
        return token_service_pb2.VerifyTokenResponse(active=self.is_active, principal=principal)

    async def WatchRevocations(self, request, context):
        if self.status is not None:
            await context.abort(self.status)
        await self.resumed.put(request.after_sequence)
        while (update := await self.updates.get()) is not None:
            yield update


class PlainVerifier(TokenVerifier):
    def _open_channel(self) -> None:
        self._channel = grpc.aio.insecure_channel(self._address)
        self._stub = token_service_pb2_grpc.TokenServiceStub(self._channel)


def end_of_session(sequence: int, session_id: str = "session-1") -> Update:
    update = Update(sequence=sequence, caught_up=True)
    update.revocations.add(sequence=sequence, session_id=session_id).expires_at.FromSeconds(int(time.time()) + 3600)
    return update


class TokenVerifierTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        logging.disable()
        self.ahead_s = 0.0
        self.fake = FakeTokenService()
        server = grpc.aio.server()
        token_service_pb2_grpc.add_TokenServiceServicer_to_server(self.fake, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self.addAsyncCleanup(server.stop, None)
        here = Path(__file__)
        self.verifier = PlainVerifier(
            f"127.0.0.1:{port}", TlsFiles(here, here, here), "unused", max_cached_tokens=2,
            monotonic=lambda: time.monotonic() + self.ahead_s, now=lambda: time.time() + self.ahead_s,
        )
        await self.verifier.__aenter__()
        self.addAsyncCleanup(self.verifier.__aexit__)
        await self.fake.resumed.get()
        await self.tell(Update(caught_up=True))

    async def tell(self, update: Update) -> None:
        await self.fake.updates.put(update)
        async with asyncio.timeout(5):
            while self.verifier._revoked.sequence != update.sequence or not self.verifier._revoked._has_known_all:
                await asyncio.sleep(0.002)

    async def expect_refusal(self, reason: str) -> None:
        with self.assertRaises(TokenRefused) as raised:
            await self.verifier.verify(TOKEN)
        self.assertEqual(raised.exception.reason, reason)

    async def test_a_verifier_with_an_audience_asks_for_its_own_tokens(self) -> None:
        def token_for(audience: str) -> str:
            return f"h.{base64.urlsafe_b64encode(json.dumps({'aud': audience}).encode()).decode().rstrip('=')}.s"

        issuers, own = token_for("https://auth.example"), token_for("payments")
        rows = [
            (None, False, issuers, None),
            (None, True, own, None),
            ("payments", False, own, "payments"),
            ("payments", False, issuers, "payments"),
            ("payments", True, own, "payments"),
            ("payments", True, issuers, None),
            ("payments", True, token_for("ledger"), None),
            ("payments", True, "a.b.c", None),
            ("payments", True, TOKEN, None),
        ]
        for audience, accepts_issuer, token, asked in rows:
            self.verifier._audience, self.verifier._accepts_issuer = audience, accepts_issuer
            self.verifier._known.clear()
            self.fake.audience = asked
            await self.verifier.verify(token)
            self.assertEqual(self.fake.asked[-1], asked, (audience, accepts_issuer, token))

    async def test_an_answer_that_does_not_repeat_the_audience_is_refused(self) -> None:
        self.verifier._audience = "payments"
        for audience in (None, "", "https://auth.example"):
            self.fake.audience = audience
            await self.expect_refusal("invalid")
        self.fake.audience = "payments"
        await self.verifier.verify(TOKEN)

    async def test_a_token_is_asked_for_once_and_then_known(self) -> None:
        for _ in range(3):
            self.assertEqual((await self.verifier.verify(TOKEN)).user_id, "user-1")
        self.assertEqual(self.fake.calls, 1)

    async def test_a_known_token_is_refused_once_its_session_has_ended(self) -> None:
        await self.verifier.verify(TOKEN)
        await self.tell(end_of_session(1))
        await self.expect_refusal("revoked")
        self.assertEqual(self.fake.calls, 1)

    async def test_a_client_is_told_from_a_user(self) -> None:
        self.fake.change = CLIENT
        client = await self.verifier.verify(TOKEN)
        self.assertEqual((client.kind, client.client_id, client.role), ("client", "client-1", ""))
        self.assertEqual(client.scopes, ("payments:read",))
        self.assertFalse(Demand(acr=1, max_age_s=3600).is_met(client, client.auth_time))
        self.fake.change = {"role": None, "role_name": "SUPPORT"}
        user = await self.verifier.verify("another.good.token")
        self.assertEqual((user.kind, user.role, user.client_id, user.scopes), ("user", "SUPPORT", "", ()))

    async def test_what_is_missing_or_unknown_is_refused(self) -> None:
        bound = principal_pb2.Confirmation(jkt="x")
        for change in ({"scopes": None}, {"client_id": "client-2"}, {"kind": 9}, {"confirmation": bound}, {"session_id": None}):
            self.fake.change = CLIENT | change
            await self.expect_refusal("invalid")

    async def test_a_token_of_a_client_ends_with_its_credential_and_by_itself(self) -> None:
        self.fake.change = CLIENT
        revocations = {"a.b.c": "token-1", "d.e.f": "origin-2", "g.h.i": "credential-1"}
        for sequence, (token, revoked) in enumerate(revocations.items(), 1):
            self.fake.change = CLIENT | {"token_id": f"token-{sequence}", "origin_token_id": f"origin-{sequence}"}
            await self.verifier.verify(token)
            await self.tell(end_of_session(sequence, revoked))
            with self.assertRaises(TokenRefused):
                await self.verifier.verify(token)
        self.assertEqual(self.fake.calls, 3)

    async def test_a_revoked_api_key_is_asked_for_again(self) -> None:
        self.fake.change = CLIENT | {"key_id": None}
        for _ in range(2):
            await self.verifier.verify(API_KEY)
        self.assertEqual(self.fake.calls, 1)
        await self.tell(end_of_session(1, "credential-1"))
        self.fake.change |= {"session_id": "credential-2"}  # it lives on under another id
        self.assertEqual((await self.verifier.verify(API_KEY)).session_id, "credential-2")
        await self.tell(end_of_session(2, "credential-2"))
        self.fake.is_active = False
        with self.assertRaises(TokenRefused):
            await self.verifier.verify(API_KEY)
        self.assertEqual(self.fake.calls, 3)

    async def test_a_revocation_that_overtakes_the_answer_wins(self) -> None:
        self.fake.gate.clear()
        asking = asyncio.create_task(self.verifier.verify(TOKEN))
        await self.tell(end_of_session(1))
        self.fake.gate.set()
        with self.assertRaises(TokenRefused):
            await asking

    async def test_from_its_expiry_on_a_known_token_is_asked_for_again(self) -> None:
        self.fake.life_s = 60
        await self.verifier.verify(TOKEN)
        self.ahead_s = 60
        await self.verifier.verify(TOKEN)
        self.assertEqual(self.fake.calls, 2)

    async def test_a_revocation_is_kept_by_the_monotonic_clock_whatever_its_end_says(self) -> None:
        revoked = Revocations()
        update = Update(sequence=1, tip="mark", caught_up=True, keep_s=910)
        update.revocations.add(sequence=1, session_id="s").expires_at.FromSeconds(1)
        self.assertTrue(revoked.apply(update, 0, 0, time.time()))
        self.assertEqual((revoked.sequence, revoked.tip), (1, "mark"))
        revoked.apply(Update(sequence=1, caught_up=True), 909, 909, time.time() + 9_999)
        self.assertTrue(revoked.has("s", ""))
        revoked.apply(Update(sequence=1, caught_up=True), 911, 911, time.time())
        self.assertFalse(revoked.has("s", ""))

    async def test_three_seconds_count_from_the_read_that_a_message_tells_of(self) -> None:
        revoked = Revocations()
        self.assertFalse(revoked.apply(Update(caught_up=True, elapsed_ms=2200), 0, 1.1, 0))
        self.assertFalse(revoked.is_fresh(1.1))
        self.assertFalse(revoked.apply(Update(caught_up=True, elapsed_ms=0), 0, 2.1, 0))
        self.assertTrue(revoked.is_fresh(3))
        self.assertFalse(revoked.is_fresh(3.01))
        self.assertTrue(revoked.apply(Update(caught_up=True, elapsed_ms=500), 0, 1.1, 0))
        self.assertTrue(revoked.is_fresh(3.5))
        self.assertFalse(revoked.is_fresh(3.51))

    async def test_after_three_silent_seconds_every_token_is_asked_for(self) -> None:
        await self.verifier.verify(TOKEN)
        self.ahead_s = 3.1
        await self.verifier.verify(TOKEN)
        self.assertEqual(self.fake.calls, 2)
        self.fake.status = grpc.StatusCode.UNAVAILABLE
        with self.assertRaises(VerifierUnavailable):
            await self.verifier.verify(TOKEN)
        self.assertFalse(self.verifier.is_ready)

    async def test_a_broken_stream_is_resumed_by_its_number(self) -> None:
        await self.tell(Update(sequence=7, caught_up=True))
        await self.fake.updates.put(None)
        self.assertEqual(await asyncio.wait_for(self.fake.resumed.get(), 5), 7)

    async def test_a_revocation_of_an_unknown_kind_ends_the_trust_in_memory(self) -> None:
        await self.verifier.verify(TOKEN)
        update = Update(sequence=1, caught_up=True)
        update.revocations.add(sequence=1)
        await self.tell(update)
        await self.verifier.verify(TOKEN)
        self.assertEqual(self.fake.calls, 2)

    async def test_many_requests_make_one_call_and_one_that_gives_up_takes_it_from_nobody(self) -> None:
        self.fake.gate.clear()
        quitter, *patient = [asyncio.create_task(self.verifier.verify(TOKEN)) for _ in range(20)]
        await asyncio.sleep(0.05)
        quitter.cancel()
        self.fake.gate.set()
        self.assertTrue(all(isinstance(answer, Principal) for answer in await asyncio.gather(*patient)))
        self.assertEqual(self.fake.calls, 1)

    async def test_the_memory_is_bounded(self) -> None:
        for token in ("a.b.c", "a.b.d", "a.b.e"):
            await self.verifier.verify(token)
        self.assertEqual(list(self.verifier._known), ["a.b.d", "a.b.e"])

    async def test_what_is_no_token_needs_no_call(self) -> None:
        for token in ("", "a.b", "a.b.c\n", "a.b.c.d", "a.b." + "c" * 4096):
            with self.assertRaises(TokenRefused):
                await self.verifier.verify(token)
        self.assertEqual(self.fake.calls, 0)

    async def test_the_level_is_that_of_the_session_and_an_unknown_one_is_refused(self) -> None:
        rows = [
            ("urn:gatehouse:acr:1", ["pwd", "mfa"], 1), ("urn:gatehouse:acr:2", [], 2), ("urn:gatehouse:acr:3", [], 3),
            ("", ["pwd"], 1), ("", ["pwd", "otp", "mfa"], 2),
            ("urn:gatehouse:acr:4", ["mfa"], None), ("urn:gatehouse:acr:0", [], None), ("2", [], None),
        ]
        for number, (self.fake.acr, self.fake.amr, level) in enumerate(rows):
            token = f"a.b.{number}"
            if level is None:
                with self.assertRaises(TokenRefused):
                    await self.verifier.verify(token)
            else:
                self.assertEqual((await self.verifier.verify(token)).acr, level)

    async def test_a_demand_is_met_by_its_level_and_within_its_age(self) -> None:
        principal = await self.verifier.verify(TOKEN)
        rows = [
            (Demand(1), 1, 86_400, True), (Demand(2), 1, 0, False), (Demand(2), 2, 86_400, True),
            (Demand(2), 3, 86_400, True), (Demand(3), 2, 0, False),
            (Demand(2, 300), 2, 300, True), (Demand(2, 300), 2, 301, False), (Demand(2, 300), 1, 0, False),
        ]
        for demand, acr, age_s, is_met in rows:
            proven = replace(principal, acr=acr)
            now = proven.auth_time + timedelta(seconds=age_s)
            self.assertEqual(demand.is_met(proven, now), is_met, (demand, acr, age_s))
        error = 'Bearer error="insufficient_user_authentication"'
        self.assertEqual(Demand(2).challenge, f'{error}, acr_values="urn:gatehouse:acr:2"')
        self.assertEqual(Demand(2, 300).challenge, f'{error}, acr_values="urn:gatehouse:acr:2", max_age=300')

    async def test_it_closes_while_its_stream_is_being_refused(self) -> None:
        self.fake.status = grpc.StatusCode.PERMISSION_DENIED
        await self.fake.updates.put(None)
        await asyncio.sleep(0.2)
        await asyncio.wait_for(self.verifier.__aexit__(), 5)


if __name__ == "__main__":
    unittest.main()
