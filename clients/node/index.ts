import { ProcessCertificate, type TlsFiles } from "#kit/rpc/rpc-tls.ts";
import type { RequestVerifier, TokenVerifier as Verifier } from "#token-client/principal.ts";
import { TokenVerifier as ServiceVerifier, type TokenVerifierOptions } from "#token-client/token-verifier.ts";

export type { TlsFiles } from "#kit/rpc/rpc-tls.ts";
export { DomainError, type ErrorCode, type StepUpDemand } from "#kit/values/errors.ts";
export {
  type AssuranceDemand,
  type AssuranceLevel,
  assertAssured,
  stepUpChallenge,
  stepUpDemandOf,
} from "#token-client/assurance.ts";
export { verifyAuthorization } from "#token-client/bearer-token.ts";
export type {
  Principal,
  RequestVerifier,
  Role,
  Subject,
  Verification,
} from "#token-client/principal.ts";
export type { VerifierLogger } from "#token-client/revocation-watch.ts";
export { assertAllowed, type RouteAuth } from "#token-client/route-auth.ts";
export type { VerifierMetrics } from "#token-client/token-verifier.ts";

export interface TokenVerifier extends Verifier, RequestVerifier {}

export interface VerifierOptions
  extends Omit<TokenVerifierOptions, "certificate" | "logger" | "metrics" | "onKeys"> {
  /** PEM files of this process. They are read again when they change. */
  tls: TlsFiles;
  /** Also notified of certificate files that cannot be used. Default: warnings of the process (`process.emitWarning`). */
  logger?: TokenVerifierOptions["logger"];
  /** Default: nothing is counted. */
  metrics?: TokenVerifierOptions["metrics"];
}

/** Whoever sets a service up has to see that token-service refuses it. */
const WARNINGS = {
  debug: () => undefined,
  warn: (facts: { err?: Error }, text: string) =>
    process.emitWarning([text, ...(facts.err ? [facts.err.message] : [])].join(": "), "GatehouseWarning"),
  error: (text: string) => process.emitWarning(text, "GatehouseWarning"),
};
const UNCOUNTED = { counter: () => ({ labels: () => ({ inc: () => undefined }) }), gauge: () => undefined };

/** One for each process. @throws if the certificate files cannot be used. */
export function createVerifier({
  tls,
  logger = WARNINGS,
  metrics = UNCOUNTED,
  ...options
}: VerifierOptions): TokenVerifier {
  const certificate = new ProcessCertificate(tls, (error) =>
    logger.error(`certificate files cannot be used, the last good ones stay: ${error}`),
  );
  const verifier = new ServiceVerifier({ ...options, certificate, logger, metrics });
  return {
    acceptsBound: verifier.acceptsBound,
    verify: (token, clientIp) => verifier.verify(token, clientIp),
    refuseSession: (sessionId) => verifier.refuseSession(sessionId),
    assertReady: () => verifier.assertReady(),
    nowMs: () => verifier.nowMs(),
    close() {
      verifier.close();
      certificate.close();
    },
  };
}
