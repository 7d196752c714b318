"""What the conformance test cannot see: threads, event loops, processes, bounds, TLS."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from conftest import ISSUER, KEY_ID, PATIENCE_S, Authority, FakeTokenService, StoppedClock, becomes, token

from gatehouse_token_client import Principal, TlsFiles, TokenRefused, TokenVerifier, VerifierUnavailable, _relay, _watch
from gatehouse_token_client import verifier as verifier_module
from gatehouse_token_client._gen import principal_pb2
from gatehouse_token_client._gen.token_service_pb2 import TokenRules, VerificationKey, WatchRevocationsRequest

CLIENT: dict[str, object] = {
    "kind": principal_pb2.PRINCIPAL_KIND_CLIENT, "user_id": "client-1", "client_id": "client-1", "key_id": None,
    "session_id": "credential-1", "scopes": ["payments:read"], "role": None, "auth_time": None, "acr": None,
}  # fmt: skip


def reason_of(verifier: TokenVerifier, text: str) -> str | None:
    try:
        verifier.verify(text)
    except TokenRefused as refusal:
        return refusal.reason
    return None


def test_threads_and_event_loops_share_one_call(verifier: TokenVerifier, service: FakeTokenService) -> None:
    service.gate.clear()

    async def in_a_loop() -> list[Principal]:
        return list(await asyncio.gather(*(verifier.verify_async(token()) for _ in range(10))))

    with ThreadPoolExecutor(14) as pool:
        threads = [pool.submit(verifier.verify, token()) for _ in range(10)]
        loops = [pool.submit(asyncio.run, in_a_loop()) for _ in range(2)]
        becomes(lambda: len(service.calls) > 0)
        service.gate.set()
        principals = [done.result(PATIENCE_S) for done in threads]
        for loop in loops:
            principals += loop.result(PATIENCE_S)
    assert {principal.user_id for principal in principals} == {"user-1"}
    assert len(service.calls) == 1


def test_a_caller_who_gives_up_takes_the_answer_from_nobody(verifier: TokenVerifier, service: FakeTokenService) -> None:
    service.gate.clear()

    async def race() -> Principal:
        quitter, patient = [asyncio.create_task(verifier.verify_async(token())) for _ in range(2)]
        while not service.calls:
            await asyncio.sleep(0.01)
        quitter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await quitter
        service.gate.set()
        return await patient

    assert asyncio.run(race()).user_id == "user-1"


def test_the_memory_is_bounded_and_keeps_what_is_used(verifier: TokenVerifier, service: FakeTokenService) -> None:
    for number in (1, 2, 1, 3, 1):
        verifier.verify(token(number))
    assert len(service.calls) == 3
    verifier.verify(token(2))
    assert len(service.calls) == 4
    assert len(verifier._known) == 2


def test_beyond_a_thousand_open_calls_the_answer_is_503(
    verifier: TokenVerifier, service: FakeTokenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier_module, "MAX_CALLS_IN_FLIGHT", 1)
    service.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(verifier.verify, token(1))
        becomes(lambda: len(service.calls) == 1)
        with pytest.raises(VerifierUnavailable):
            verifier.verify(token(2))
        service.gate.set()
        assert first.result(PATIENCE_S).user_id == "user-1"
    assert verifier.verify(token(2)).user_id == "user-1"


def test_a_refusal_is_kept_for_ten_seconds(
    verifier: TokenVerifier, service: FakeTokenService, clock: StoppedClock
) -> None:
    service.response = {"active": False}
    assert [reason_of(verifier, token()) for _ in range(3)] == ["invalid"] * 3
    assert len(service.calls) == 1
    clock.ahead_s = 10.0
    service.response = {"active": True}
    assert reason_of(verifier, token()) is None


def test_no_token_stays_in_memory_for_longer_than_its_revocation_would(
    verifier: TokenVerifier, service: FakeTokenService, clock: StoppedClock
) -> None:
    verifier.verify(token())
    verifier._revoked.least_kept_s = 40
    for ahead_s, calls in ((39.0, 1), (41.0, 2)):
        clock.ahead_s = ahead_s
        becomes(lambda: verifier.is_ready)
        verifier.verify(token())
        assert len(service.calls) == calls


def test_revocations_beyond_the_bound_end_the_trust_in_memory(
    service: FakeTokenService, own_files: TlsFiles, clock: StoppedClock
) -> None:
    with TokenVerifier(service.address, own_files, max_revocations=1, **clock.options()) as verifier:
        becomes(lambda: verifier.is_ready)
        verifier.verify(token())
        service.revoke("another-1")
        service.revoke("another-2")
        becomes(lambda: not verifier._revoked.is_complete)
        verifier.verify(token())
        assert len(service.calls) == 2


def test_a_revoked_api_key_may_live_on_as_another_credential(verifier: TokenVerifier, service: FakeTokenService) -> None:
    api_key = f"gh_{'0a' * 16}_{'A' * 43}"
    service.principal = CLIENT
    client = verifier.verify(api_key)
    assert (client.client_id, client.session_id) == ("client-1", "credential-1")
    assert (client.user_id, client.role) == ("", "")
    service.principal = CLIENT | {"session_id": "credential-2"}
    service.revoke("credential-1")
    becomes(lambda: verifier.verify(api_key).session_id == "credential-2")


def test_screening_needs_no_call(
    service: FakeTokenService, own_files: TlsFiles, clock: StoppedClock
) -> None:
    service.rules = TokenRules(issuer="https://auth.example", keys=[VerificationKey(key_id="K" * 43, algorithm="EdDSA")])
    deep = token(nested=[]).replace(token(nested=[]).split(".")[1], "W1tb" * 700)
    with TokenVerifier(service.address, own_files, **clock.options()) as verifier:
        becomes(lambda: verifier._revoked.rules is not None)
        rows = {
            token(iss="https://other.example"): "invalid",
            token(audience="payments"): "invalid",
            token(exp="tomorrow"): "invalid",
            token(exp=1): "expired",
            token()[:-1]: "invalid",
            deep: "invalid",
            token(key_id="L" * 43): "invalid",  # after one more heartbeat
        }
        assert {text: reason_of(verifier, text) for text in rows} == rows
        assert service.calls == []
        assert reason_of(verifier, token()) is None


def test_a_machine_that_has_stopped_is_left_and_requests_do_not_wait_for_it(
    service: FakeTokenService, own_files: TlsFiles
) -> None:
    """Behind sockets that pass nothing on any more."""
    stopped = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = int(service.address.rpartition(":")[2])

    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not stopped.is_set():
                    target.sendall(data)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    with TokenVerifier(service.address, own_files) as direct:
        becomes(lambda: direct.is_ready)
        with TokenVerifier(address, own_files, call_timeout_s=PATIENCE_S) as verifier:
            becomes(lambda: verifier.is_ready)
            assert verifier.verify(token(1)).user_id == "user-1"
            stopped.set()
            becomes(lambda: not verifier._relay.is_connected)
            becomes(lambda: verifier._watch.is_silent)
            for number in (1, 2):
                with pytest.raises(VerifierUnavailable, match="silent"):
                    verifier._ask(token(number))  # whether or not memory is still trusted
            assert verifier._asking == {}, "a call was begun"
        assert direct._relay.is_connected, "a connection that is heard was left"
    listener.close()


def is_unavailable(verifier: TokenVerifier) -> bool:
    try:
        return reason_of(verifier, token()) is None
    except VerifierUnavailable:
        return True


def test_a_token_of_an_unknown_key_waits_and_is_503_in_silence(
    service: FakeTokenService, own_files: TlsFiles, clock: StoppedClock
) -> None:
    service.rules = TokenRules(issuer="https://auth.example", keys=[])
    with TokenVerifier(service.address, own_files, **clock.options()) as verifier:
        becomes(lambda: verifier._revoked.rules is not None)
        service.is_silent = True
        becomes(lambda: is_unavailable(verifier))  # after what was on its way
        assert service.calls == []


def test_few_threads_wait_for_keys_and_the_others_go_on(
    service: FakeTokenService, own_files: TlsFiles, clock: StoppedClock
) -> None:
    service.rules = TokenRules(issuer=ISSUER, keys=[VerificationKey(key_id=KEY_ID, algorithm="EdDSA")])
    with TokenVerifier(service.address, own_files, **clock.options()) as verifier:
        becomes(lambda: verifier._revoked.rules is not None)
        service.is_silent = True
        for _ in range(_watch.MAX_KEY_WAITING_THREADS):
            assert verifier._key_waiting_threads.acquire(blocking=False)
        with pytest.raises(VerifierUnavailable, match="threads"):
            verifier.verify(token(key_id="X" * 43))
        assert verifier.verify(token()).user_id == "user-1"
        verifier._key_waiting_threads.release()
        with pytest.raises(VerifierUnavailable, match="silent"):
            verifier.verify(token(key_id="X" * 43))
        assert verifier._key_waiting_threads.acquire(blocking=False), "the place was not given back"


def test_a_relay_that_cannot_start_is_503_and_the_next_token_tries_again(
    service: FakeTokenService, own_files: TlsFiles
) -> None:
    """In a process of its own, which has no room for files."""
    program = f"""
import resource, sys; sys.path.insert(0, {str(Path(verifier_module.__file__).parent.parent)!r})
from gatehouse_token_client import TlsFiles, TokenVerifier, VerifierUnavailable
verifier = TokenVerifier({service.address!r}, TlsFiles({str(own_files.cert_file)!r}, {str(own_files.key_file)!r}, {str(own_files.ca_file)!r}))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
try:
    verifier.verify({token()!r})
except VerifierUnavailable as error:
    print("503", error.__cause__)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(verifier.verify({token()!r}).user_id)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    # The reason, not the end of a wait.
    assert ran.stdout.startswith("503 the relay cannot start: [Errno 24] Too many open files"), (ran.stdout, ran.stderr)
    assert ran.stdout.split()[-1] == "user-1", ran.stderr


def test_the_watch_goes_on_after_a_failure_of_its_own(
    verifier: TokenVerifier, service: FakeTokenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([RuntimeError("no room for a thread"), ValueError("not open")])
    opened = verifier._watch._open_stream

    def open_stream(request: WatchRevocationsRequest) -> _watch.Stream:
        for failure in failures:
            raise failure
        return opened(request)

    monkeypatch.setattr(verifier._watch, "_open_stream", open_stream)
    heard = len(service.requests)
    verifier._watch._ended.set()  # the stream breaks
    becomes(lambda: len(service.requests) > heard)


def test_a_peer_of_another_name_is_not_believed(authority: Authority, own_files: TlsFiles) -> None:
    imposter = FakeTokenService(authority.issue("identity-service"))
    try:
        with TokenVerifier(imposter.address, own_files) as verifier:
            with pytest.raises(VerifierUnavailable):
                verifier.verify(token())
            assert imposter.calls == []
            assert not verifier.is_ready
    finally:
        imposter.stop()


def test_a_peer_of_another_authority_is_not_believed(tmp_path: Path, own_files: TlsFiles) -> None:
    stranger = Authority(tmp_path)
    imposter = FakeTokenService(stranger.issue("token-service"))
    try:
        with TokenVerifier(imposter.address, own_files) as verifier, pytest.raises(VerifierUnavailable):
            verifier.verify(token())
        assert imposter.calls == []
    finally:
        imposter.stop()


def test_renewed_certificates_are_used_and_unusable_ones_are_not(authority: Authority, own_files: TlsFiles) -> None:
    own, server_files = Path(own_files.cert_file), authority.issue("token-service")
    first = own.read_bytes()
    renewed = authority.issue("payments-service", file="renewed")
    service = FakeTokenService(server_files)

    def presented(number: int) -> bytes:
        nonlocal service
        service.stop()
        service = FakeTokenService(server_files, service.address)
        becomes(lambda: answers(number))
        return service.peers[-1].encode()

    def answers(number: int) -> bool:
        try:
            return verifier.verify(token(number)).user_id == "user-1"
        except VerifierUnavailable:
            return False

    with TokenVerifier(service.address, own_files) as verifier:
        assert presented(1) == first
        shutil.copy(renewed.cert_file, own)  # for a moment certificate and key do not match
        assert presented(2) == first
        shutil.copy(renewed.key_file, own_files.key_file)
        assert presented(3) == own.read_bytes() != first
    service.stop()


def test_a_process_does_not_start_without_its_identity(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        TokenVerifier("127.0.0.1:1", TlsFiles(tmp_path / "a", tmp_path / "b", tmp_path / "c"))


def test_another_process_cannot_use_the_connection(verifier: TokenVerifier, service: FakeTokenService) -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path(verifier_module.__file__).parent.parent)!r})
import grpc
from gatehouse_token_client._gen.token_service_pb2 import VerifyTokenRequest, VerifyTokenResponse
call = grpc.insecure_channel({verifier._relay.target!r}).unary_unary("/gatehouse.token.v1.TokenService/VerifyToken",
    request_serializer=VerifyTokenRequest.SerializeToString, response_deserializer=VerifyTokenResponse.FromString)
try: print(call(VerifyTokenRequest(token="x"), timeout=10).active)
except grpc.RpcError as error: print(error.code().name)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "UNAVAILABLE", ran.stderr
    assert service.calls == []


def in_a_child(work: Callable[[], str]) -> str:
    """What `work` says after a fork."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_verifier_that_was_used_before_a_fork_says_so_in_the_child(verifier: TokenVerifier) -> None:
    verifier.verify(token())
    assert in_a_child(lambda: verifier.verify(token()).user_id).startswith("VerifierUnavailable: ")
    assert verifier.verify(token()).user_id == "user-1"


def test_a_verifier_that_was_made_before_a_fork_works_in_the_child(service: FakeTokenService, own_files: TlsFiles) -> None:
    """In processes of their own, because this one has used gRPC."""
    program = f"""
import os, sys; sys.path.insert(0, {str(Path(verifier_module.__file__).parent.parent)!r})
from gatehouse_token_client import TlsFiles, TokenVerifier
verifier = TokenVerifier({service.address!r}, TlsFiles({str(own_files.cert_file)!r}, {str(own_files.key_file)!r}, {str(own_files.ca_file)!r}))
children = [os.fork() for _ in range(2)]
if 0 in children:
    print(verifier.verify({token()!r}).user_id, flush=True)  # and ends without `close`
else:
    for child in children: os.waitpid(child, 0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split().count("user-1") >= 2, ran.stderr


def test_after_close_nothing_is_left(service: FakeTokenService, own_files: TlsFiles) -> None:
    before = set(threading.enumerate())
    verifier = TokenVerifier(service.address, own_files)
    verifier.verify(token())
    verifier.close()
    verifier.close()
    with pytest.raises(VerifierUnavailable):
        verifier.verify(token(2))
    becomes(lambda: not [one for one in set(threading.enumerate()) - before if one.name.startswith("gatehouse")])


def test_where_there_are_no_abstract_sockets_a_private_folder_is_used(
    service: FakeTokenService, own_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_relay, "_HAS_ABSTRACT_SOCKETS", False)
    verifier = TokenVerifier(service.address, own_files)
    verifier.open()
    folder = Path(verifier._relay.target.removeprefix("unix:")).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert verifier.verify(token()).user_id == "user-1"
    verifier.close()
    assert not folder.exists()


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED])
def test_an_error_of_the_call_is_never_a_401(
    verifier: TokenVerifier, service: FakeTokenService, status: grpc.StatusCode
) -> None:
    service.status = status
    with pytest.raises(VerifierUnavailable) as raised:
        verifier.verify(token())
    assert isinstance(raised.value.__cause__, grpc.RpcError)


@pytest.mark.parametrize("audience", ["", "two words", 'quo"te', "x" * 201])
def test_an_audience_has_a_form(own_files: TlsFiles, audience: str) -> None:
    with pytest.raises(ValueError):
        TokenVerifier("127.0.0.1:1", own_files, audience=audience)
