"""A service behind the package, for `clients/conformance`. Its argument: `asgi` or `wsgi`."""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.handlers import BaseHandler
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

wall_jump_s = 0.0
real_time = time.time


def jumped_time() -> float:
    # gRPC passes deadlines to its C library, whose clock does not jump here.
    is_grpc = sys._getframe(1).f_globals["__name__"].startswith("grpc.")
    return real_time() if is_grpc else real_time() + wall_jump_s


time.time = jumped_time  # before the package is loaded
sys.path.insert(0, str(Path(__file__).parent / "src"))

import grpc
import uvicorn
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import StringValue

from gatehouse_token_client import (
    PUBLIC,
    AssuranceDemand,
    Principal,
    RouteAuth,
    TlsFiles,
    TokenVerifier,
    VerifierUnavailable,
    asgi,
    rpc,
    wsgi,
)

ANYBODY = RouteAuth(any_user=True, scopes=["payments:read"])
ADMIN = RouteAuth(roles=["ADMIN"])
FRESH = RouteAuth(any_user=True, assurance=AssuranceDemand(1, max_age_seconds=300))
SERVICE = "gatehouse.conformance.v1.ConformanceService"

env = os.environ
verifier = TokenVerifier(
    env["TOKEN_SERVICE_ADDRESS"],
    TlsFiles(env["TLS_CERT_FILE"], env["TLS_KEY_FILE"], env["TLS_CA_FILE"]),
    audience=env.get("TOKEN_AUDIENCE"),
    accepts_issuer=env.get("ACCEPTS_ISSUER") == "true",
    call_timeout_s=int(env.get("CALL_TIMEOUT_MS", "800")) / 1000,
)


def caller(principal: Principal) -> str:
    shown = asdict(principal)
    names = {"kind": "kind", "user_id": "userId", "session_id": "sessionId", "role": "role", "client_id": "clientId"}
    return json.dumps({ours: shown[name] for name, ours in names.items()} | {"scopes": list(principal.scopes)})


async def app(scope: Any, _receive: Any, send: Any) -> None:
    if scope["path"] == "/ready" and not verifier.is_ready:
        raise VerifierUnavailable
    await send({"type": "http.response.start", "status": 200, "headers": []})
    text = caller(asgi.principal_in(scope)) if scope["path"] == "/whoami" else "{}"
    await send({"type": "http.response.body", "body": text.encode()})


ROUTES = {"/whoami": ANYBODY, "/admin": ADMIN, "/fresh": FRESH, "/ready": PUBLIC}


def listen_asgi() -> str:
    guarded = asgi.BearerAuth(app, verifier, lambda scope: ROUTES[scope["path"]])
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(guarded, log_level="error", lifespan="off"))
    threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def wsgi_app(environ: Any, start_response: Any) -> list[bytes]:
    if environ["PATH_INFO"] == "/ready" and not verifier.is_ready:
        raise VerifierUnavailable
    start_response("200 OK", [])
    return [caller(wsgi.principal_in(environ)).encode() if environ["PATH_INFO"] == "/whoami" else b"{}"]


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


BaseHandler.http_version = "1.1"


class QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def listen_wsgi() -> str:
    guarded = wsgi.BearerAuth(wsgi_app, verifier, lambda environ: ROUTES[environ["PATH_INFO"]])
    server = make_server("127.0.0.1", 0, guarded, ThreadedServer, QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def who_am_i(_request: Empty, _context: grpc.ServicerContext) -> StringValue:
    return StringValue(value=caller(rpc.current_principal()))


def admin(_request: Empty, _context: grpc.ServicerContext) -> StringValue:
    return StringValue(value="{}")


def watch(_request: Empty, _context: grpc.ServicerContext) -> Any:
    yield StringValue(value=caller(rpc.current_principal()))


def listen_rpc() -> str:
    methods = {f"/{SERVICE}/WhoAmI": ANYBODY, f"/{SERVICE}/Admin": ADMIN, f"/{SERVICE}/Watch": ANYBODY}
    server = grpc.server(ThreadPoolExecutor(64), interceptors=[rpc.BearerAuth(verifier, methods)])
    codec = (Empty.FromString, StringValue.SerializeToString)
    handlers = {
        "WhoAmI": grpc.unary_unary_rpc_method_handler(who_am_i, *codec),
        "Admin": grpc.unary_unary_rpc_method_handler(admin, *codec),
        "Unlisted": grpc.unary_unary_rpc_method_handler(admin, *codec),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, *codec),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    threading.Thread(target=server.wait_for_termination, daemon=True).start()  # keeps the server
    return f"127.0.0.1:{port}"


print(json.dumps({"http": listen_wsgi() if sys.argv[1:] == ["wsgi"] else listen_asgi(), "grpc": listen_rpc()}), flush=True)
for line in sys.stdin:
    wall_jump_s += int(line.removeprefix("jump ")) / 1000
    print("jumped", flush=True)
os._exit(0)
