import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";

interface Issuers {
  /** What clients put into `aud`, because the gateway's metadata say so; undefined of a token-service that does not say. */
  askIssuer: (context: CallContext) => Promise<string | undefined>;
  /** What this service demands there. */
  tokenIssuer: string;
}

/** To be repeated. Two settings of two services must be equal; if not, every assertion is refused as if its key were wrong. */
export function createIssuerCheck({ askIssuer, tokenIssuer }: Issuers, logger: Logger): () => Promise<void> {
  return async () => {
    const issuer = await askIssuer(newCallContext());
    if (issuer === undefined || issuer === tokenIssuer) return;
    const settings = { PUBLIC_ORIGIN: tokenIssuer, TOKEN_ISSUER: issuer };
    logger.error(
      settings,
      "PUBLIC_ORIGIN is not token-service's TOKEN_ISSUER: no client can use a public key",
    );
  };
}
