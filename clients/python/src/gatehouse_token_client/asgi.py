"""ASGI middleware for Starlette, FastAPI and others."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from ._rules import bearer_token
from .errors import AuthError
from .principal import AUTHENTICATED, RouteAuth, Principal, Public
from .verifier import TokenVerifier

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_KEY: Final = "gatehouse.principal"


class BearerAuth:
    """Lets only calls through that `auth` allows. It is given the scope of each request and WebSocket.

    An AuthError that the application raises is answered too, such as that of `RouteAuth(...).check(principal_in(scope), verifier.now())`.
    """

    def __init__(
        self, app: App, verifier: TokenVerifier, auth: RouteAuth | Callable[[Scope], RouteAuth | Public] = AUTHENTICATED
    ) -> None:
        self._app = app
        self._verifier = verifier
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watched_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._admit(scope)
            await self._app(scope, receive, watched_send)
        except AuthError as error:
            if has_begun:
                raise
            await _refuse(scope, send, error)

    async def _admit(self, scope: Scope) -> None:
        scope.pop(_KEY, None)
        auth = self._auth if isinstance(self._auth, RouteAuth) else self._auth(scope)
        if isinstance(auth, Public):
            return
        values = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"authorization"]
        principal = await self._verifier.verify_async(bearer_token(values))
        auth.check(principal, self._verifier.now())
        scope[_KEY] = principal


def principal_in(scope: Scope) -> Principal:
    """The caller. Raises LookupError on public routes."""
    principal = scope.get(_KEY)
    if not isinstance(principal, Principal):
        raise LookupError("this route is public and has no principal")
    return principal


async def _refuse(scope: Scope, send: Send, error: AuthError) -> None:
    prefix = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})  # before accept: the server answers 403
            return
        prefix = "websocket."
    await send({"type": f"{prefix}http.response.start", "status": error.http_status, "headers": error.http_headers()})
    body = b"" if scope.get("method") == "HEAD" else error.http_body()
    await send({"type": f"{prefix}http.response.body", "body": body})
