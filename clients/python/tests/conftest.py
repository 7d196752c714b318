"""A private authority, and a token-service that answers as the test says, over mutual TLS."""

import base64
import datetime
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gatehouse_token_client import TlsFiles, TokenVerifier
from gatehouse_token_client._gen import principal_pb2, token_service_pb2
from gatehouse_token_client._gen.token_service_pb2 import (
    VerifyTokenRequest,
    VerifyTokenResponse,
    WatchRevocationsRequest,
    WatchRevocationsResponse,
)

ISSUER = "https://auth.example"
KEY_ID = "K" * 43
PATIENCE_S = 30
EXPIRES_S = int(time.time()) + 3_600
"""One for all tests: the text of a token must not change with the time."""


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, service: str, file: str | None = None) -> TlsFiles:
        """With the URI alone, as in production: no DNS name."""
        key = ec.generate_private_key(ec.SECP256R1())
        uri = x509.UniformResourceIdentifier(f"spiffe://gatehouse/{service}")
        certificate = (
            self._builder(x509.Name([]), key.public_key())
            .add_extension(x509.SubjectAlternativeName([uri]), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        name = file or service
        files = TlsFiles(self.folder / f"{name}.crt", self.folder / f"{name}.key", self.ca)
        Path(files.cert_file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8
        Path(files.key_file).write_bytes(
            key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        )
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder(self._name, subject, key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
        )


class FakeTokenService:
    """Sends a heartbeat every 100 ms, whose age counts from its arrival, and calls every token active, with this `principal`."""

    def __init__(self, files: TlsFiles, address: str = "127.0.0.1:0") -> None:
        self.calls: list[VerifyTokenRequest] = []
        self.peers: list[str] = []
        self.requests: list[WatchRevocationsRequest] = []
        self.status: grpc.StatusCode | None = None
        self.principal: dict[str, Any] = {}
        self.response: dict[str, Any] = {"active": True, "expires_in_ms": 3_600_000}
        self.rules: token_service_pb2.TokenRules | None = None
        self.sequence = 0
        self.gate = threading.Event()
        self.gate.set()
        self.is_silent = False
        self._revocations: list[token_service_pb2.Revocation] = []
        self._server = grpc.server(ThreadPoolExecutor(32))
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "VerifyToken": grpc.unary_unary_rpc_method_handler(
                self._verify, VerifyTokenRequest.FromString, VerifyTokenResponse.SerializeToString
            ),
            "WatchRevocations": grpc.unary_stream_rpc_method_handler(
                self._watch, WatchRevocationsRequest.FromString, WatchRevocationsResponse.SerializeToString
            ),
        }
        generic = grpc.method_handlers_generic_handler("gatehouse.token.v1.TokenService", handlers)
        self._server.add_generic_rpc_handlers((generic,))
        pair = (Path(files.key_file).read_bytes(), Path(files.cert_file).read_bytes())
        credentials = grpc.ssl_server_credentials([pair], Path(files.ca_file).read_bytes(), require_client_auth=True)
        self.address = f"127.0.0.1:{self._server.add_secure_port(address, credentials)}"
        self._server.start()

    def stop(self) -> None:
        self.gate.set()
        self._server.stop(None).wait()

    def revoke(self, session_id: str) -> None:
        self.sequence += 1
        self._revocations.append(token_service_pb2.Revocation(sequence=self.sequence, session_id=session_id))

    def _verify(self, request: VerifyTokenRequest, context: grpc.ServicerContext) -> VerifyTokenResponse:
        self.calls.append(request)
        self.peers.append(bytes(next(iter(context.auth_context()["x509_pem_cert"]))).decode())
        self.gate.wait(PATIENCE_S)
        if self.status is not None:
            context.abort(self.status, "as the test says")
        return VerifyTokenResponse(principal=make_principal(self.principal), **self.response)

    def _watch(
        self, request: WatchRevocationsRequest, context: grpc.ServicerContext
    ) -> Iterator[WatchRevocationsResponse]:
        self.requests.append(request)
        sent, is_first = request.after_sequence, True
        while context.is_active():
            if not self.is_silent:
                fresh = [one for one in self._revocations if one.sequence > sent]
                sent = self.sequence
                message = WatchRevocationsResponse(
                    revocations=fresh,
                    sequence=sent,
                    tip=f"tip-{sent}",
                    caught_up=True,
                    rules=self.rules if is_first else None,
                )
                message.read_at.GetCurrentTime()
                is_first = False
                yield message
            time.sleep(0.1)


def make_principal(change: dict[str, Any]) -> principal_pb2.Principal:
    base = principal_pb2.Principal(
        user_id="user-1", session_id="session-1", role="USER", token_id="token-1", key_id="key-1",
        acr="urn:gatehouse:acr:1", amr=["pwd"], kind=principal_pb2.PRINCIPAL_KIND_USER,
    )  # fmt: skip
    base.auth_time.GetCurrentTime()
    base.issued_at.GetCurrentTime()
    base.expires_at.FromSeconds(int(time.time()) + 3_600)
    for name, value in change.items():
        base.ClearField(name)
        if value is not None:
            base.MergeFrom(principal_pb2.Principal(**{name: value}))
    return base


def token(number: int = 1, audience: str = ISSUER, key_id: str = KEY_ID, **claims: object) -> str:
    def segment(value: object) -> str:
        text = json.dumps(value, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    header = {"alg": "EdDSA", "typ": "at+jwt", "kid": key_id}
    payload = {"iss": ISSUER, "aud": audience, "exp": EXPIRES_S, "jti": str(number)} | claims
    return f"{segment(header)}.{segment(payload)}.{'s' * 86}"


def becomes(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def service(authority: Authority) -> Iterator[FakeTokenService]:
    fake = FakeTokenService(authority.issue("token-service"))
    yield fake
    fake.stop()


@pytest.fixture
def own_files(authority: Authority) -> TlsFiles:
    return authority.issue("payments-service")


class StoppedClock:
    """So that memory is fresh on a machine that is slow."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._started_s = time.time()

    def options(self) -> dict[str, Any]:
        return {
            "monotonic": lambda: 1000 + self.ahead_s,
            "wall": lambda: self._started_s + self.ahead_s,
            "call_timeout_s": PATIENCE_S,
        }


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def verifier(service: FakeTokenService, own_files: TlsFiles, clock: StoppedClock) -> Iterator[TokenVerifier]:
    with TokenVerifier(service.address, own_files, max_cached_tokens=2, **clock.options()) as opened:
        becomes(lambda: opened.is_ready)
        yield opened
