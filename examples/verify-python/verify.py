"""Verifies one access token and prints whose it is.

Exit code 0: good; 1: refused (a service answers 401); 75: cannot be known now (a service answers 503).
"""

import argparse
import asyncio
import dataclasses
import json
import logging
import sys
import time
from pathlib import Path

from token_verifier import TlsFiles, TokenRefused, TokenVerifier, VerifierUnavailable

EX_TEMPFAIL = 75


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--token", required=True, help="the access token; - reads it from standard input")
    parser.add_argument("--address", default="127.0.0.1:50052", help="host:port of token-service")
    parser.add_argument("--server-name", default="localhost", help="DNS name in token-service's certificate")
    parser.add_argument("--tls", type=Path, default=Path(".gatehouse/tls"), help="folder of certificates")
    parser.add_argument("--identity", default="payments-service", help="whose certificate to present")
    parser.add_argument("--audience", help="whose token it must be; default: the issuer's")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="verify again and again, to watch it change")
    return parser.parse_args()


async def main() -> int:
    args = arguments()
    token = sys.stdin.readline().strip() if args.token == "-" else args.token
    files = TlsFiles(args.tls / f"{args.identity}.crt", args.tls / f"{args.identity}.key", args.tls / "ca.crt")
    async with TokenVerifier(args.address, files, args.server_name, audience=args.audience) as verifier:
        while True:
            started = time.perf_counter()
            exit_code, text = await verdict(verifier, token)
            if args.every is None:
                print(text)
                return exit_code
            took_ms = (time.perf_counter() - started) * 1_000
            print(f"{time.strftime('%H:%M:%S')} {took_ms:8.3f} ms  {' '.join(text.split())[:100]}", flush=True)
            await asyncio.sleep(args.every)


async def verdict(verifier: TokenVerifier, token: str) -> tuple[int, str]:
    try:
        principal = await verifier.verify(token)
        return 0, json.dumps(dataclasses.asdict(principal), indent=2, default=str)
    except TokenRefused as refusal:
        return 1, f"refused: {refusal}"
    except VerifierUnavailable as error:
        return EX_TEMPFAIL, f"unavailable: {error}"


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    try:
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        sys.exit(130)
