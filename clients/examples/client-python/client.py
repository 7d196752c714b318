"""A program that lists payments: Authlib gets its token with private_key_jwt (RFC 7523).

`client.py new-key FILE` makes a key pair and prints the public half, for `gatehouse clients add-credential`.
"""

import json
import os
import sys
import time
from pathlib import Path

from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT, private_key_jwt_sign
from joserfc.jwk import OKPKey

TIMEOUT_S = 30
ASSERTION_LIFE_S = 60
"""Gatehouse accepts at most five minutes. Authlib's default is an hour."""


class ShortAssertion(PrivateKeyJWT):
    """For the issuer alone, which is not Authlib's default either."""

    alg = "EdDSA"

    def sign(self, auth, token_endpoint):
        # Made anew: Authlib keeps the `jti` in the claims that it is given, and each is accepted once.
        claims = {"exp": int(time.time()) + ASSERTION_LIFE_S}
        return private_key_jwt_sign(auth.client_secret, auth.client_id, token_endpoint, self.alg, claims)


def new_key(file: Path) -> None:
    key = OKPKey.generate_key("Ed25519")
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as private:
        json.dump(key.as_dict(private=True), private)
    print(json.dumps(key.as_dict(private=False)))


def list_payments(url: str, client_id: str, key_file: Path) -> int:
    key = OKPKey.import_key(json.loads(key_file.read_text()))
    session = OAuth2Session(
        client_id,
        key,
        token_endpoint_auth_method="private_key_jwt",
        scope="payments:read",
        default_timeout=TIMEOUT_S,
    )
    server = session.get(f"{url}/.well-known/oauth-authorization-server", withhold_token=True).json()
    session.register_client_auth_method(ShortAssertion(server["issuer"]))
    session.fetch_token(server["token_endpoint"], grant_type="client_credentials")
    answer = session.get(f"{url}/payments")
    print(answer.text)
    return 0 if answer.status_code == 200 else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["new-key"]:
        new_key(Path(sys.argv[2]))
    else:
        environment = os.environ
        url, client_id, file = (environment[name] for name in ("GATEHOUSE_URL", "CLIENT_ID", "CLIENT_KEY_FILE"))
        sys.exit(list_payments(url, client_id, Path(file)))
