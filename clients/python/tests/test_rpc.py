"""The interceptors, in real servers of both kinds."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
import pytest
from conftest import PATIENCE_S, FakeTokenService, token

from gatehouse_token_client import AUTHENTICATED, PUBLIC, RouteAuth, Public, TokenVerifier, rpc

METHODS: dict[str, RouteAuth | Public] = {
    "/t.S/unary_unary": AUTHENTICATED,
    "/t.S/unary_stream": AUTHENTICATED,
    "/t.S/stream_unary": AUTHENTICATED,
    "/t.S/stream_stream": AUTHENTICATED,
    "/t.S/admin": RouteAuth(roles=["ADMIN"]),
    "/t.S/public": PUBLIC,
}
KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


def caller() -> bytes:
    try:
        return rpc.current_principal().user_id.encode()
    except LookupError:
        return b"nobody"


def kind_of(method: str) -> str:
    return method if method in KINDS else "unary_unary"


def handlers(unary: Any, stream: Any) -> grpc.GenericRpcHandler:
    def handler(method: str) -> Any:
        kind = kind_of(method)
        return getattr(grpc, f"{kind}_rpc_method_handler")(stream if kind.endswith("stream") else unary)

    names = [*KINDS, "admin", "public", "unlisted"]
    return grpc.method_handlers_generic_handler("t.S", {name: handler(name) for name in names})


@pytest.fixture(params=["threads", "asyncio"])
def server(request: pytest.FixtureRequest, verifier: TokenVerifier) -> Iterator[str]:
    """Its address."""
    if request.param == "threads":

        def unary(_request: Any, _context: Any) -> bytes:
            return caller()

        def stream(_request: Any, _context: Any) -> Iterator[bytes]:
            yield caller()
            yield caller()

        with_threads = grpc.server(ThreadPoolExecutor(4), interceptors=[rpc.BearerAuth(verifier, METHODS)])
        with_threads.add_generic_rpc_handlers((handlers(unary, stream),))
        port = with_threads.add_insecure_port("127.0.0.1:0")
        with_threads.start()
        yield f"127.0.0.1:{port}"
        with_threads.stop(None).wait()
        return

    async def aio_unary(_request: Any, _context: Any) -> bytes:
        return caller()

    async def aio_stream(_request: Any, _context: Any) -> AsyncIterator[bytes]:
        yield caller()
        yield caller()

    loop = asyncio.new_event_loop()

    async def start() -> tuple[grpc.aio.Server, int]:
        aio = grpc.aio.server(interceptors=[rpc.AioBearerAuth(verifier, METHODS)])
        aio.add_generic_rpc_handlers((handlers(aio_unary, aio_stream),))
        port = aio.add_insecure_port("127.0.0.1:0")
        await aio.start()
        return aio, port

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.set_event_loop, loop).result()
        aio, port = thread.submit(loop.run_until_complete, start()).result()
        running = thread.submit(loop.run_forever)
        yield f"127.0.0.1:{port}"
        asyncio.run_coroutine_threadsafe(aio.stop(None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        running.result()
        loop.close()


def call(address: str, method: str, *authorization: str) -> tuple[grpc.StatusCode, list[bytes], dict[str, Any]]:
    kind = kind_of(method)
    metadata = [("authorization", value) for value in authorization]
    with grpc.insecure_channel(address) as channel:
        request = iter([b"x"]) if kind.startswith("stream") else b"x"
        made = getattr(channel, kind)(f"/t.S/{method}")
        try:
            if kind.endswith("stream"):
                return grpc.StatusCode.OK, list(made(request, metadata=metadata, timeout=PATIENCE_S)), {}
            return grpc.StatusCode.OK, [made(request, metadata=metadata, timeout=PATIENCE_S)], {}
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            trailers = {key: value for key, value in error.trailing_metadata() or ()}
            return error.code(), [], trailers


def reason(trailers: dict[str, Any]) -> str:
    """Of the ErrorInfo, by hand: `google.rpc.Status.details[0].value.reason`."""
    details: bytes = trailers["grpc-status-details-bin"]
    assert b"type.googleapis.com/google.rpc.ErrorInfo" in details
    info = details.split(b"google.rpc.ErrorInfo", 1)[1]
    at = info.index(b"\x0a")
    return info[at + 2 : at + 2 + info[at + 1]].decode()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_method_asks_for_a_token(server: str, kind: str) -> None:
    assert call(server, kind, f"Bearer {token()}")[:2] == (
        grpc.StatusCode.OK,
        [b"user-1"] * (2 if kind.endswith("stream") else 1),
    )
    status, answers, trailers = call(server, kind)
    assert (status, answers, reason(trailers)) == (grpc.StatusCode.UNAUTHENTICATED, [], "token_missing")


def test_a_public_method_has_no_principal(server: str) -> None:
    call(server, "unary_unary", f"Bearer {token()}")
    assert call(server, "public", f"Bearer {token()}")[:2] == (grpc.StatusCode.OK, [b"nobody"])


@pytest.mark.parametrize("method", ["admin", "unlisted"])
def test_what_is_not_allowed_or_not_listed_is_refused(server: str, method: str) -> None:
    status, _, trailers = call(server, method, f"Bearer {token()}")
    assert (status, reason(trailers)) == (grpc.StatusCode.PERMISSION_DENIED, "forbidden")


def test_an_unlisted_method_is_refused_without_a_token_too(server: str) -> None:
    assert call(server, "unlisted")[0] == grpc.StatusCode.UNAUTHENTICATED


def test_several_tokens_are_refused(server: str) -> None:
    status, _, trailers = call(server, "unary_unary", f"Bearer {token()}", f"Bearer {token()}")
    assert (status, reason(trailers)) == (grpc.StatusCode.UNAUTHENTICATED, "token_invalid")


def test_without_an_answer_it_is_unavailable(server: str, service: FakeTokenService) -> None:
    service.status = grpc.StatusCode.UNAUTHENTICATED
    status, _, trailers = call(server, "unary_stream", f"Bearer {token()}")
    assert (status, reason(trailers)) == (grpc.StatusCode.UNAVAILABLE, "service_unavailable")
