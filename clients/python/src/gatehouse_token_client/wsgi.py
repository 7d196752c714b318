"""WSGI middleware for Flask, Django and others."""

import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ._rules import bearer_token
from .errors import AuthError
from .principal import AUTHENTICATED, Principal, Public, RouteAuth
from .verifier import TokenVerifier

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_KEY: Final = "gatehouse.principal"


class BearerAuth:
    """Lets only calls through that `auth` allows. It is given the environ of each request.

    An AuthError that the application raises is answered too, such as that of
    `RouteAuth(...).check(principal_in(environ), verifier.now())`, unless the framework answers all errors itself.
    """

    def __init__(
        self,
        app: "WSGIApplication",
        verifier: TokenVerifier,
        auth: "RouteAuth | Callable[[WSGIEnvironment], RouteAuth | Public]" = AUTHENTICATED,
    ) -> None:
        self._app = app
        self._verifier = verifier
        self._auth = auth

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        try:
            self._admit(environ)
            return self._app(environ, start_response)
        except AuthError as error:
            return _refuse(environ, start_response, error)

    def _admit(self, environ: "WSGIEnvironment") -> None:
        environ.pop(_KEY, None)
        auth = self._auth if isinstance(self._auth, RouteAuth) else self._auth(environ)
        if isinstance(auth, Public):
            return
        principal = self._verifier.verify(bearer_token_in(environ))
        auth.check(principal, self._verifier.now())
        environ[_KEY] = principal


def bearer_token_in(environ: "WSGIEnvironment") -> str:
    """The token of a request. Raises TokenMissing, or TokenRefused also for several headers."""
    # Servers join several headers by commas, which no token has.
    return bearer_token([value.strip() for value in environ.get("HTTP_AUTHORIZATION", "").split(",")])


def principal_in(environ: "WSGIEnvironment") -> Principal:
    """The caller. Raises LookupError on public routes."""
    principal = environ.get(_KEY)
    if not isinstance(principal, Principal):
        raise LookupError("this route is public and has no principal")
    return principal


def _refuse(environ: "WSGIEnvironment", start_response: "StartResponse", error: AuthError) -> Iterable[bytes]:
    body = error.http_body()
    headers = [(name.decode().title(), value.decode()) for name, value in error.http_headers()]
    status = HTTPStatus(error.http_status)
    # With the error, the server raises it if the answer has begun.
    start_response(f"{status} {status.phrase}", [*headers, ("Content-Length", str(len(body)))], sys.exc_info())
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]
