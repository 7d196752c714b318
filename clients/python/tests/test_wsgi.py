"""The middleware before Flask, behind a real server."""

import http.client
import json
import threading
from collections.abc import Iterator
from wsgiref.simple_server import WSGIRequestHandler, make_server

import flask
import grpc
import pytest
from conftest import PATIENCE_S, FakeTokenService, token

from gatehouse_token_client import (
    AUTHENTICATED,
    PUBLIC,
    AssuranceDemand,
    Public,
    RouteAuth,
    TokenVerifier,
)
from gatehouse_token_client.wsgi import BearerAuth, principal_in

INVALID = 'Bearer error="invalid_token"'
ROUTES: dict[str, RouteAuth | Public] = {
    "/health": PUBLIC,
    "/admin": RouteAuth(roles=["ADMIN"]),
    "/transfer": RouteAuth(any_user=True, assurance=AssuranceDemand(2, max_age_seconds=300)),
}


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port(verifier: TokenVerifier) -> Iterator[int]:
    app = flask.Flask("orders")
    app.config["PROPAGATE_EXCEPTIONS"] = True

    @app.route("/health")
    def health() -> str:
        try:
            return principal_in(flask.request.environ).user_id
        except LookupError:
            return "nobody"

    @app.route("/inside")
    def inside() -> str:
        RouteAuth(roles=["ADMIN"]).check(principal_in(flask.request.environ))
        return "never"

    @app.route("/orders")
    @app.route("/admin")
    @app.route("/transfer")
    def orders() -> str:
        return principal_in(flask.request.environ).user_id

    guarded = BearerAuth(app, verifier, lambda environ: ROUTES.get(environ["PATH_INFO"], AUTHENTICATED))
    server = make_server("127.0.0.1", 0, guarded, handler_class=Quiet)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    yield server.server_port
    server.shutdown()
    serving.join()
    server.server_close()


def call(port: int, path: str, *authorization: str, method: str = "GET") -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.putrequest(method, path)
    for value in authorization:
        connection.putheader("Authorization", value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


@pytest.mark.parametrize(
    ("authorization", "code", "challenge"),
    [
        ([], "token_missing", "Bearer"),
        (["Basic YTpi"], "token_missing", "Bearer"),
        (["Basic YTpi", "Basic YTpi"], "token_missing", "Bearer"),
        (["Bearer"], "token_invalid", INVALID),
        (["Bearer a.b.c d"], "token_invalid", INVALID),
        (["Bearer a.b.c", "Bearer a.b.c"], "token_invalid", INVALID),
        (["Bearer a.b.c", "Basic YTpi"], "token_invalid", INVALID),
        (["Basic YTpi", "Bearer a.b.c"], "token_invalid", INVALID),
        (["Bearer a.b.c,"], "token_invalid", INVALID),
    ],
)
def test_what_is_no_token_is_refused_without_a_call(
    port: int, service: FakeTokenService, authorization: list[str], code: str, challenge: str
) -> None:
    status, headers, body = call(port, "/orders", *authorization)
    answer = json.loads(body)
    assert (status, headers["www-authenticate"], answer["error"]) == (401, challenge, {"code": code})
    assert (headers["content-type"], headers["cache-control"]) == ("application/json", "no-store")
    assert answer["success"] is False and answer["message"]
    assert service.calls == []


def test_a_good_token_gives_the_application_its_principal(port: int) -> None:
    assert call(port, "/orders", f"bEaReR {token()}")[::2] == (200, b"user-1")


def test_a_public_route_has_no_principal_even_if_a_token_was_sent(port: int) -> None:
    assert call(port, "/health", f"Bearer {token()}")[::2] == (200, b"nobody")


def test_a_role_is_asked_for_before_the_application_and_in_it(port: int) -> None:
    for path in ("/admin", "/inside"):
        status, headers, body = call(port, path, f"Bearer {token()}")
        assert (status, json.loads(body)["error"]["code"]) == (403, "forbidden")
        assert headers["www-authenticate"] == 'Bearer error="insufficient_scope"'


def test_a_step_up_is_asked_for_with_its_challenge(port: int) -> None:
    status, headers, body = call(port, "/transfer", f"Bearer {token()}")
    error = 'Bearer error="insufficient_user_authentication"'
    assert (status, headers["www-authenticate"]) == (401, f'{error}, acr_values="urn:gatehouse:acr:2", max_age=300')
    assert json.loads(body)["error"]["details"]["acr"] == 2


def test_without_an_answer_it_is_503_with_a_time_to_come_back(port: int, service: FakeTokenService) -> None:
    service.status = grpc.StatusCode.UNAVAILABLE
    status, headers, body = call(port, "/orders", f"Bearer {token()}")
    assert (status, headers["retry-after"], json.loads(body)["error"]["code"]) == (503, "1", "service_unavailable")
    assert "www-authenticate" not in headers


def test_a_refused_head_has_no_body(port: int) -> None:
    status, headers, body = call(port, "/orders", method="HEAD")
    assert (status, headers["www-authenticate"], body) == (401, "Bearer", b"")
