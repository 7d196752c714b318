"""The verifier for tests of services, behind the real middleware and interceptors."""

import asyncio
import io
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from wsgiref.util import setup_testing_defaults

import grpc
import pytest
from conftest import PATIENCE_S

from gatehouse_token_client import (
    AssuranceDemand,
    RouteAuth,
    TokenRefused,
    TokenVerifier,
    VerifierUnavailable,
    asgi,
    rpc,
    wsgi,
)
from gatehouse_token_client.testing import TestVerifier

ADA: dict[str, Any] = {"user_id": "ada", "role": "USER"}
SHOP: dict[str, Any] = {"client_id": "shop", "scopes": ["payments:read"]}
AUTH = RouteAuth(roles=["USER"], scopes=["payments:read"])
TRANSFERS = RouteAuth(roles=["USER"], scopes=["payments:read"], assurance=AssuranceDemand(2, max_age_seconds=300))

Call = Callable[..., dict[str, Any] | str]
"""Answers the principal, or the code of the refusal."""


@pytest.fixture
def verifier() -> TestVerifier:
    return TestVerifier()


def by_asgi(verifier: TokenVerifier, token: str, auth: RouteAuth = AUTH) -> dict[str, Any] | str:
    sent: list[Any] = []
    seen: list[dict[str, Any]] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(asdict(asgi.principal_in(scope)))

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]}
    asyncio.run(asgi.BearerAuth(app, verifier, auth)(scope, receive, send))
    return seen[0] if seen else code_of(sent[1]["body"])


def by_wsgi(verifier: TokenVerifier, token: str, auth: RouteAuth = AUTH) -> dict[str, Any] | str:
    seen: list[dict[str, Any]] = []

    def app(environ: Any, _start: Any) -> list[bytes]:
        seen.append(asdict(wsgi.principal_in(environ)))
        return []

    def start_response(*_: Any) -> Callable[[bytes], object]:
        return io.BytesIO().write

    environ: dict[str, Any] = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
    setup_testing_defaults(environ)
    body = b"".join(wsgi.BearerAuth(app, verifier, auth)(environ, start_response))
    return seen[0] if seen else code_of(body)


def by_rpc(verifier: TokenVerifier, token: str, auth: RouteAuth = AUTH) -> dict[str, Any] | str:
    seen: list[dict[str, Any]] = []

    def handle(_request: Any, _context: Any) -> bytes:
        seen.append(asdict(rpc.current_principal()))
        return b""

    server = grpc.server(ThreadPoolExecutor(1), interceptors=[rpc.BearerAuth(verifier, {"/t.S/m": auth})])
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {"m": grpc.unary_unary_rpc_method_handler(handle)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.S", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            metadata = (("authorization", f"Bearer {token}"),)
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/t.S/m")
            method(b"", metadata=metadata, timeout=PATIENCE_S)
        return seen[0]
    except grpc.RpcError as error:
        trailers: Any = error.trailing_metadata()
        details = dict(trailers)["grpc-status-details-bin"]
        codes = ("token_invalid", "token_expired", "forbidden", "step_up_required", "user_required", "service_unavailable")
        return next(code for code in codes if b"\n" + bytes([len(code)]) + code.encode() in details)
    finally:
        server.stop(None).wait()


def code_of(body: bytes) -> str:
    return str(json.loads(body)["error"]["code"])


@pytest.fixture(params=[by_asgi, by_wsgi, by_rpc])
def call(request: pytest.FixtureRequest) -> Call:
    chosen: Call = request.param
    return chosen


def test_what_it_issues_is_accepted_with_the_principal_asked_for_and_nothing_else_is(
    verifier: TestVerifier, call: Call
) -> None:
    user = {"kind": "user", "session_id": "s", "client_id": "", "scopes": (), "acr": 1, "amr": ("pwd",)}
    seen = call(verifier, verifier.issue(**ADA, session_id="s"))
    assert isinstance(seen, dict) and seen | ADA | user == seen
    client = {"kind": "client", "client_id": "shop", "scopes": ("payments:read",), "user_id": "", "role": ""}
    seen = call(verifier, verifier.issue(**SHOP))
    assert isinstance(seen, dict) and seen | client == seen
    assert call(verifier, verifier.issue(user_id="ada", role="CLERK")) == "forbidden"
    assert call(verifier, verifier.issue(client_id="shop", scopes=["payments:write"])) == "forbidden"
    assert call(verifier, TestVerifier().issue(**ADA)) == "token_invalid"


def test_the_end_of_a_session_ends_its_tokens_and_a_revoked_token_of_a_client_is_alone(
    verifier: TestVerifier, call: Call
) -> None:
    phone = [verifier.issue(**ADA, session_id="phone") for _ in range(2)]
    laptop = verifier.issue(**ADA)
    key, other_key = (verifier.issue(**SHOP, session_id="credential") for _ in range(2))
    verifier.revoke(phone[0])
    verifier.revoke(key)
    assert [call(verifier, token) for token in (*phone, key)] == ["token_invalid"] * 3
    assert all(isinstance(call(verifier, token), dict) for token in (laptop, other_key))
    verifier.revoke_session("credential")
    verifier.revoke_user("ada")
    assert [call(verifier, token) for token in (laptop, other_key)] == ["token_invalid"] * 2
    with pytest.raises(TokenRefused, match="revoked"):
        verifier.verify(laptop)
    assert isinstance(call(verifier, verifier.issue(**ADA)), dict)


def test_a_token_expires_by_a_call_or_by_the_clock(call: Call) -> None:
    ahead_s = 0.0
    verifier = TestVerifier(wall=lambda: time.time() + ahead_s)
    ended, lasting = verifier.issue(**ADA), verifier.issue(**ADA)
    verifier.expire(ended)
    assert call(verifier, ended) == "token_expired"
    assert isinstance(call(verifier, lasting), dict)
    ahead_s = 3_600
    assert call(verifier, lasting) == "token_expired"


def test_a_step_up_is_demanded_by_the_level_and_its_age(verifier: TestVerifier, call: Call) -> None:
    old = verifier.now() - timedelta(minutes=10)
    assert call(verifier, verifier.issue(**ADA), TRANSFERS) == "step_up_required"
    assert isinstance(call(verifier, verifier.issue(**ADA, acr=2), TRANSFERS), dict)
    assert call(verifier, verifier.issue(**ADA, acr=3, auth_time=old), TRANSFERS) == "step_up_required"
    assert call(verifier, verifier.issue(**SHOP), TRANSFERS) == "user_required"


def test_while_it_is_unavailable_every_call_is_refused_and_readiness_fails(verifier: TestVerifier, call: Call) -> None:
    token = verifier.issue(**ADA)
    verifier.is_available = False
    assert (call(verifier, token), verifier.is_ready) == ("service_unavailable", False)
    verifier.is_available = True
    assert isinstance(call(verifier, token), dict) and verifier.is_ready
    with verifier:
        pass
    with pytest.raises(VerifierUnavailable):
        verifier.verify(token)


@pytest.mark.parametrize(
    "wanted",
    [
        {"user_id": "", "role": "USER"},
        {"user_id": "ada", "role": "user"},
        {"user_id": "ada"},
        {},
        ADA | {"session_id": ""},
        ADA | {"acr": 4},
        ADA | {"amr": "pwd"},
        ADA | {"auth_time": datetime(2026, 1, 1)},
        ADA | {"expires_at": datetime(2026, 1, 1)},
        ADA | {"tenant": "x"},
        ADA | SHOP,
        SHOP | {"scopes": []},
        SHOP | {"scopes": "payments:read"},
        SHOP | {"acr": 2},
        {"client_id": "", "scopes": ["payments:read"]},
    ],
)
def test_principals_that_no_token_has_are_refused(verifier: TestVerifier, wanted: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="need|empty|acr|collection|unexpected"):
        verifier.issue(**wanted)


def test_tokens_of_others_are_no_argument(verifier: TestVerifier) -> None:
    for act in (verifier.revoke, verifier.expire):
        with pytest.raises(ValueError, match="has not issued"):
            act("a token of somebody else")


def test_no_member_reaches_the_verifier_that_it_stands_in_for() -> None:
    public = {name for name in vars(TokenVerifier) if not name.startswith("_")}
    assert public <= set(vars(TestVerifier))
