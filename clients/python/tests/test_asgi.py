"""The middleware, called as a server calls it."""

import asyncio
import json
from typing import Any

import grpc
import pytest
from conftest import FakeTokenService, token

from gatehouse_token_client import AUTHENTICATED, PUBLIC, RouteAuth, AssuranceDemand, Public, TokenVerifier
from gatehouse_token_client._gen import principal_pb2
from gatehouse_token_client.asgi import BearerAuth, principal_in

INVALID = 'Bearer error="invalid_token"'
ROUTES: dict[str, RouteAuth | Public] = {
    "/health": PUBLIC,
    "/orders": AUTHENTICATED,
    "/admin": RouteAuth(roles=["ADMIN"]),
    "/clients": RouteAuth(scopes=["orders:read"]),
    "/all": RouteAuth(any_user=True, scopes=["orders:read"]),
    "/nobody": RouteAuth(),
    "/transfer": RouteAuth(any_user=True, assurance=AssuranceDemand(2, max_age_seconds=300)),
}


async def app(scope: Any, _receive: Any, send: Any) -> None:
    path = scope["path"]
    if path == "/late":
        await send({"type": "http.response.start", "status": 200, "headers": []})
    if path in ("/inside", "/late"):
        RouteAuth(roles=["ADMIN"]).check(principal_in(scope))
    try:
        caller = principal_in(scope).user_id
    except LookupError:
        caller = "nobody"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": caller.encode()})


def call(
    verifier: TokenVerifier, path: str = "/orders", *authorization: str, **scope: Any
) -> tuple[int, dict[str, str], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    headers = [(b"authorization", value.encode()) for value in authorization]
    guarded = BearerAuth(app, verifier, lambda scope: ROUTES.get(scope["path"], AUTHENTICATED))
    asyncio.run(guarded({"type": "http", "path": path, "headers": headers, **scope}, receive, send))
    named = {name.decode(): value.decode() for name, value in sent[0].get("headers", [])}
    return sent[0].get("status", sent[0].get("code")), named, sent[-1].get("body", b"")


@pytest.mark.parametrize(
    ("authorization", "status", "code", "challenge"),
    [
        ([], 401, "token_missing", "Bearer"),
        ([""], 401, "token_missing", "Bearer"),
        (["Basic YTpi"], 401, "token_missing", "Bearer"),
        (["Bearers x"], 401, "token_missing", "Bearer"),
        (["DPoP a.b.c"], 401, "token_missing", "Bearer"),
        (["Bearer"], 401, "token_invalid", INVALID),
        (["Bearer "], 401, "token_invalid", INVALID),
        (["Bearer a.b.c d"], 401, "token_invalid", INVALID),
        (["Bearer a.b.c", "Bearer a.b.c"], 401, "token_invalid", INVALID),
        (["Bearer a.b.c", "Basic YTpi"], 401, "token_invalid", INVALID),
    ],
)
def test_what_is_no_token_is_refused_without_a_call(
    verifier: TokenVerifier, service: FakeTokenService, authorization: list[str], status: int, code: str, challenge: str
) -> None:
    answered, headers, body = call(verifier, "/orders", *authorization)
    assert (answered, json.loads(body)["error"]["code"], headers["www-authenticate"]) == (status, code, challenge)
    assert headers["cache-control"] == "no-store"
    assert service.calls == []


def test_a_good_token_is_admitted_in_any_case_of_its_scheme(verifier: TokenVerifier) -> None:
    assert call(verifier, "/orders", f"bEaReR {token()}")[::2] == (200, b"user-1")


def test_a_public_route_has_no_principal_even_if_a_token_was_sent(verifier: TokenVerifier) -> None:
    assert call(verifier, "/health", f"Bearer {token()}")[::2] == (200, b"nobody")
    outer = {"gatehouse.principal": verifier.verify(token())}
    assert call(verifier, "/health", **outer)[::2] == (200, b"nobody")


def test_a_revoked_and_an_expired_token_have_their_codes(verifier: TokenVerifier, service: FakeTokenService) -> None:
    for number, (reason, code) in enumerate([(1, "token_invalid"), (2, "token_expired"), (3, "token_invalid")]):
        service.response = {"active": False, "reason": reason}
        status, headers, body = call(verifier, "/orders", f"Bearer {token(number)}")
        assert (status, headers["www-authenticate"], json.loads(body)["error"]["code"]) == (401, INVALID, code)


def test_without_an_answer_it_is_503_with_a_time_to_come_back(
    verifier: TokenVerifier, service: FakeTokenService
) -> None:
    service.status = grpc.StatusCode.UNAVAILABLE
    status, headers, body = call(verifier, "/orders", f"Bearer {token()}")
    assert (status, headers["retry-after"], json.loads(body)["error"]["code"]) == (503, "1", "service_unavailable")
    assert "www-authenticate" not in headers


def test_users_are_admitted_by_role_and_clients_by_scopes(verifier: TokenVerifier, service: FakeTokenService) -> None:
    client = {
        "kind": principal_pb2.PRINCIPAL_KIND_CLIENT, "user_id": "c", "client_id": "c", "scopes": ["orders:read"],
        "role": None, "auth_time": None, "acr": None,
    }  # fmt: skip
    callers: list[dict[str, Any]] = [{}, {"role": "ADMIN"}, client, client | {"scopes": ["orders:write"]}]
    table: dict[str, list[int]] = {"/orders": [], "/admin": [], "/clients": [], "/all": [], "/nobody": [], "/inside": []}
    for number, service.principal in enumerate(callers):
        for path, statuses in table.items():
            statuses.append(call(verifier, path, f"Bearer {token(number)}")[0])
    assert table == {
        "/orders": [200, 200, 403, 403],
        "/admin": [403, 200, 403, 403],
        "/clients": [403, 403, 200, 403],
        "/all": [200, 200, 200, 403],
        "/nobody": [403, 403, 403, 403],
        "/inside": [403, 200, 403, 403],
    }


def test_a_step_up_is_asked_for_with_its_challenge(verifier: TokenVerifier, service: FakeTokenService) -> None:
    status, headers, body = call(verifier, "/transfer", f"Bearer {token(1)}")
    error = 'Bearer error="insufficient_user_authentication"'
    assert (status, headers["www-authenticate"]) == (401, f'{error}, acr_values="urn:gatehouse:acr:2", max_age=300')
    methods = ["passkey", "totp", "recovery_code"]
    assert json.loads(body)["error"] == {
        "code": "step_up_required",
        "details": {"acr": 2, "maxAgeSeconds": 300, "methods": methods},
    }
    service.principal = {"acr": "urn:gatehouse:acr:2"}
    assert call(verifier, "/transfer", f"Bearer {token(2)}")[0] == 200


def test_a_refusal_after_the_answer_has_begun_is_the_servers_to_handle(verifier: TokenVerifier) -> None:
    with pytest.raises(Exception, match="role"):
        call(verifier, "/late", f"Bearer {token()}")


def test_a_websocket_is_refused_before_it_is_accepted(verifier: TokenVerifier) -> None:
    assert call(verifier, "/orders", type="websocket")[0] == 1008
    status, headers, body = call(
        verifier, "/orders", type="websocket", extensions={"websocket.http.response": {}}
    )
    assert (status, headers["www-authenticate"], json.loads(body)["error"]["code"]) == (401, "Bearer", "token_missing")
    assert call(verifier, "/orders", f"Bearer {token()}", type="websocket")[0] == 200


def test_names_are_given_as_collections(verifier: TokenVerifier) -> None:
    with pytest.raises(TypeError):
        RouteAuth(roles="ADMIN")
    with pytest.raises(TypeError):
        RouteAuth(scopes="orders:read")
