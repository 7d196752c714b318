"""Mutual TLS to token-service with a check of its SPIFFE name, which gRPC for Python cannot do."""

import asyncio
import logging
import os
import random
import socket
import ssl
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Final

CONNECT_TIMEOUT_S: Final = 2.0
START_TIMEOUT_S: Final = 5.0
_CHUNK_BYTES: Final = 65_536
_HAS_ABSTRACT_SOCKETS = sys.platform == "linux"

_log = logging.getLogger("gatehouse_token_client")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: this service's certificate and key, and the private CA that signs those of both ends."""

    cert_file: str | PathLike[str]
    key_file: str | PathLike[str]
    ca_file: str | PathLike[str]

    def context(self) -> ssl.SSLContext:
        """Raises OSError if the files are unusable, or key and certificate do not match."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # `_assert_peer` checks the name
        context.load_verify_locations(cafile=self.ca_file)
        context.load_cert_chain(self.cert_file, self.key_file)
        context.set_alpn_protocols(["h2"])
        return context


class Relay:
    """Passes the bytes of this process's gRPC channel on to token-service. Reads the files anew for each connection."""

    def __init__(self, address: str, peer: str, files: TlsFiles) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"not host:port: {address}")
        self._host, self._port = host.strip("[]"), int(port)
        self._peer = peer
        self._files = files
        self._context = files.context()  # a process must not start without its identity
        self._folder: Path | None = None
        self._stop: Callable[[], object] = lambda: None
        self._call_in_loop: Callable[..., object] = lambda *_: None
        self._heard_at: dict[asyncio.StreamWriter, float] = {}
        """Of each connection to token-service, by the monotonic clock. Changed by the thread of the relay alone."""
        self.target = ""
        """Of the channel."""

    @property
    def is_connected(self) -> bool:
        """Whether a connection has been made, and not been left."""
        return bool(self._heard_at)

    def drop_quiet(self, silence_s: float) -> None:
        """Ends the connections from which nothing has come for so long: gRPC makes new ones."""
        self._call_in_loop(self._drop_quiet, silence_s)

    def _drop_quiet(self, silence_s: float) -> None:
        quiet = [writer for writer, heard_at in self._heard_at.items() if monotonic() - heard_at >= silence_s]
        for writer in quiet:
            del self._heard_at[writer]
            writer.transport.abort()

    def start(self) -> str:
        """Raises OSError if it cannot be."""
        if _HAS_ABSTRACT_SOCKETS:
            name = f"gatehouse-{os.urandom(16).hex()}"
            path, self.target = f"\0{name}", f"unix-abstract:{name}"
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="gatehouse-"))
            path = f"{self._folder}/s"
            self.target = f"unix:{path}"
        listening: Future[None] = Future()
        # A thread of its own: the caller may be an event loop, which cannot run a second one.
        self._thread = threading.Thread(
            target=self._run_loop, args=(path, listening), name="gatehouse-relay", daemon=True
        )
        try:
            self._thread.start()
            listening.result(START_TIMEOUT_S)
        except Exception as error:
            listening.cancel()  # a thread that comes late ends by it
            self._remove_folder()
            raise OSError(f"the relay cannot start: {error}") from error
        return self.target

    def close(self) -> None:
        self._stop()
        self._thread.join(timeout=5)
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            (self._folder / "s").unlink(missing_ok=True)
            self._folder.rmdir()
            self._folder = None

    def _run_loop(self, path: str, listening: Future[None]) -> None:
        try:
            asyncio.run(self._run(path, listening))
        except BaseException as error:  # also of the loop itself, which needs files: whoever waits must be notified
            if listening.done():
                _log.exception("the relay has ended")
            else:
                listening.set_exception(error)

    async def _run(self, path: str, listening: Future[None]) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stop.set)
        self._call_in_loop = loop.call_soon_threadsafe
        server = await asyncio.start_unix_server(self._serve, path)
        listening.set_result(None)
        await stop.wait()
        server.close()  # asyncio.run cancels what is still passing

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        remote: asyncio.StreamWriter | None = None
        try:
            _assert_own_process(writer.get_extra_info("socket"))
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                from_remote, remote = await self._connect()
            own = remote
            self._heard_at[own] = monotonic()
            passing = [
                asyncio.create_task(_pass(reader, own, lambda: None)),
                asyncio.create_task(_pass(from_remote, writer, lambda: self._hear(own))),
            ]
            try:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in passing:
                    one.cancel()
        except (OSError, TimeoutError) as error:
            _log.warning("no connection to %s: %s", self._peer, error or "timeout")
        finally:
            if remote is not None:
                self._heard_at.pop(remote, None)
            for end in (writer, remote):
                if end is not None:
                    end.transport.abort()

    def _hear(self, remote: asyncio.StreamWriter) -> None:
        if remote in self._heard_at:
            self._heard_at[remote] = monotonic()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To one replica, which a name may have many of."""
        places = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        random.shuffle(places)
        context = self._current_context()
        failure: OSError = OSError("the name has no address")
        for *_, place in places:
            try:
                reader, writer = await asyncio.open_connection(
                    str(place[0]), self._port, ssl=context, server_hostname=self._peer
                )
            except OSError as error:
                failure = error
                continue
            _assert_peer(writer, self._peer)
            return reader, writer
        raise failure

    def _current_context(self) -> ssl.SSLContext:
        try:
            self._context = self._files.context()
        except OSError as error:
            _log.error("certificate files cannot be used; the last good ones stay: %s", error)
        return self._context


def _assert_own_process(connection: socket.socket) -> None:
    """Abstract sockets have no owner, so others could have the calls made in this service's name."""
    if not _HAS_ABSTRACT_SOCKETS:
        return
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", credentials)
    if pid != os.getpid():
        raise OSError("another process has connected")


def _assert_peer(writer: asyncio.StreamWriter, peer: str) -> None:
    tls = writer.get_extra_info("ssl_object")
    names = [name for kind, name in tls.getpeercert().get("subjectAltName", ()) if kind == "URI"]
    if names != [f"spiffe://gatehouse/{peer}"] or tls.selected_alpn_protocol() != "h2":
        writer.transport.abort()
        raise OSError(f"the peer is {names}")


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_data: Callable[[], None]) -> None:
    try:
        while data := await reader.read(_CHUNK_BYTES):
            on_data()
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # the end of one side ends both
