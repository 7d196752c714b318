"""Interceptors for servers of grpcio, with threads (`BearerAuth`) and with asyncio (`AioBearerAuth`)."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import grpc
import grpc.aio

from ._rules import bearer_token
from .errors import AuthError, Forbidden
from .principal import RouteAuth, Principal, Public
from .verifier import TokenVerifier

Methods = Mapping[str, RouteAuth | Public]
"""By path: `/orders.v1.OrderService/ListOrders`. Other methods are refused."""

# grpcio gives each call a context of its own.
_principal: ContextVar[Principal | None] = ContextVar("gatehouse_principal", default=None)


def current_principal() -> Principal:
    """The caller, in a handler. Raises LookupError in public methods."""
    principal = _principal.get()
    if principal is None:
        raise LookupError("this method is public and has no principal")
    return principal


class _Admission:
    def __init__(self, verifier: TokenVerifier, methods: Methods) -> None:
        self._verifier = verifier
        self._methods = methods

    def is_public(self, method: str) -> bool:
        return isinstance(self._methods.get(method), Public)

    def assert_allowed(self, method: str, principal: Principal) -> None:
        auth = self._methods.get(method)
        if not isinstance(auth, RouteAuth):
            raise Forbidden
        auth.check(principal, self._verifier.now())
        _principal.set(principal)


class BearerAuth(_Admission, grpc.ServerInterceptor):
    """For `grpc.server`. Reads `authorization` metadata."""

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = continuation(details)
        if handler is None or self.is_public(details.method):
            return handler
        token = _values(details)

        def admit(context: grpc.ServicerContext) -> None:
            try:
                self.assert_allowed(details.method, self._verifier.verify(bearer_token(token)))
            except AuthError as error:
                context.set_trailing_metadata(error.rpc_metadata())
                context.abort(error.rpc_status, error.message)

        # In the handler's thread: this method runs in the one that accepts calls.
        def admitted(behavior: Any) -> Any:
            def call(request: Any, context: grpc.ServicerContext) -> Any:
                admit(context)
                return behavior(request, context)

            return call

        return _with_behavior(handler, admitted)


class AioBearerAuth(_Admission, grpc.aio.ServerInterceptor):
    """For `grpc.aio.server`, with asyncio handlers. Reads `authorization` metadata."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None or self.is_public(details.method):
            return handler
        try:
            principal = await self._verifier.verify_async(bearer_token(_values(details)))
            self.assert_allowed(details.method, principal)
        except AuthError as error:
            refusal = error
        else:
            return handler

        async def abort(_request: Any, context: Any) -> None:
            await context.abort(refusal.rpc_status, refusal.message, refusal.rpc_metadata())

        return _with_behavior(handler, lambda _behavior: abort)


def _values(details: Any) -> list[str]:
    return [value for key, value in details.invocation_metadata if key == "authorization"]


def _with_behavior(handler: Any, change: Callable[[Any], Any]) -> Any:
    """The handler with another behaviour of the same kind."""
    request = "stream" if handler.request_streaming else "unary"
    response = "stream" if handler.response_streaming else "unary"
    kind = f"{request}_{response}"
    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(change(getattr(handler, kind)), handler.request_deserializer, handler.response_serializer)
