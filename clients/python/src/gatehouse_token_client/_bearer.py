"""The token of an `Authorization` (RFC 6750 section 2.1)."""

import re
from typing import Final

from ._rules import MAX_TOKEN_CHARACTERS
from .errors import TokenMissing, TokenRefused

_SCHEME: Final = re.compile(r"bearer(?: |$)", re.IGNORECASE)
_CREDENTIALS: Final = re.compile(r"bearer ([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)


def bearer_token(values: list[str]) -> str:
    """Raises TokenMissing, or TokenRefused also for several values."""
    if not any(_SCHEME.match(value) for value in values):
        raise TokenMissing
    found = _CREDENTIALS.fullmatch(values[0]) if len(values) == 1 else None
    if found is None or len(found[1]) > MAX_TOKEN_CHARACTERS:
        raise TokenRefused("invalid")
    return found[1]
