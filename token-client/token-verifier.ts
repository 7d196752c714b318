import { LRUCache } from "lru-cache";
import {
  type Principal as PrincipalMessage,
  Role as RoleMessage,
} from "../proto/gen/gatehouse/token/v1/principal.ts";
import {
  InactiveReason,
  TokenServiceClient,
  type VerifyTokenResponse,
} from "../proto/gen/gatehouse/token/v1/token_service.ts";
import { newCallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import { callUnary, createRpcClient } from "../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../service-kit/rpc-tls.ts";
import type { Principal, Role, TokenVerifier, Verification } from "./principal.ts";
import { RevocationSet } from "./revocation-set.ts";
import { RevocationWatch } from "./revocation-watch.ts";

export interface TokenVerifierOptions {
  /** `host:port` of token-service. */
  address: string;
  /** The calling process's certificate; token-service must list its name among its verifiers. */
  certificate: ProcessCertificate;
  logger: Logger;
  metrics: Metrics;
  /** Verified tokens kept in memory, about 1 KiB each. Default 50,000. */
  maxCachedTokens?: number;
  /** How long one `VerifyToken` may take, in milliseconds. Default 800. */
  callTimeoutMs?: number;
}

const DEFAULT_MAX_CACHED_TOKENS = 50_000;
const DEFAULT_CALL_TIMEOUT_MS = 800;
const MAX_CALLS_IN_FLIGHT = 1_000;
const MAX_REVOCATIONS = 1_000_000;
/** No access token lives longer: token-service's configuration ends there. */
const MAX_ACCESS_TOKEN_LIFETIME_MS = 3_610_000;

/** The shape of every token of ours; anything else needs no call to be refused. */
const TOKEN_SHAPE = /^[A-Za-z0-9_-]{1,1024}\.[A-Za-z0-9_-]{1,3072}\.[A-Za-z0-9_-]{1,256}$/;

const ROLE: Partial<Record<RoleMessage, Role>> = {
  [RoleMessage.USER]: "USER",
  [RoleMessage.ADMIN]: "ADMIN",
  [RoleMessage.AUDITOR]: "AUDITOR",
};

const INVALID: Verification = { kind: "inactive", reason: "invalid" };
const EXPIRED: Verification = { kind: "inactive", reason: "expired" };
const REVOKED: Verification = { kind: "inactive", reason: "revoked" };

/**
 * Verifies access tokens. A token's first sight is a `VerifyToken` call; after that it is answered from memory
 * until it expires, checked each time against the revocations that `WatchRevocations` tells. While
 * token-service has been silent for 3 s memory is not trusted and every token is asked for; what cannot be
 * asked is neither accepted nor refused, but `service_unavailable`.
 */
export function createTokenVerifier(options: TokenVerifierOptions): TokenVerifier {
  const client = createRpcClient(TokenServiceClient, {
    address: options.address,
    service: "token-service",
    certificate: options.certificate,
    idempotentMethods: ["gatehouse.token.v1.TokenService/VerifyToken"],
  });
  const known = new LRUCache<string, Extract<Verification, { kind: "active" }>>({
    max: options.maxCachedTokens ?? DEFAULT_MAX_CACHED_TOKENS,
  });
  const asking = new Map<string, Promise<Verification>>();
  const revoked = new RevocationSet(MAX_REVOCATIONS);
  const watch = new RevocationWatch(client, revoked, options.logger);
  const lookups = options.metrics.counter(
    "gatehouse_token_lookups_total",
    "Verified tokens, by where from.",
    ["from"],
  );
  const fromMemory = lookups.labels("memory");
  const fromService = lookups.labels("service");
  options.metrics.gauge(
    "gatehouse_verifier_lag_seconds",
    "Since token-service was last heard.",
    [],
    (gauge) => gauge.set(watch.lagMs / 1_000),
  );

  async function ask(token: string): Promise<Verification> {
    const context = newCallContext({ budgetMs: options.callTimeoutMs ?? DEFAULT_CALL_TIMEOUT_MS });
    const answer = decode(await callUnary(client, client.verifyToken, { token }, context));
    if (answer.kind !== "active") return answer;
    const { sessionId, keyId } = answer.principal;
    // A revocation that arrived while the answer was under way is newer than the answer.
    if (revoked.has(sessionId, keyId)) return REVOKED;
    known.set(token, answer);
    return answer;
  }

  /** One call in flight a token. */
  function askOnce(token: string): Promise<Verification> {
    const running = asking.get(token);
    if (running !== undefined) return running;
    if (asking.size >= MAX_CALLS_IN_FLIGHT) {
      return Promise.reject(
        new DomainError("service_unavailable", "Too many tokens are being verified", { retryAfterMs: 1_000 }),
      );
    }
    fromService.inc();
    const call = ask(token).finally(() => asking.delete(token));
    asking.set(token, call);
    return call;
  }

  return {
    verify(token) {
      const verified = known.get(token);
      if (verified === undefined) return TOKEN_SHAPE.test(token) ? askOnce(token) : INVALID;
      const { principal } = verified;
      if (revoked.has(principal.sessionId, principal.keyId)) {
        known.delete(token);
        return REVOKED;
      }
      const nowMs = Date.now();
      if (principal.expiresAt.getTime() <= nowMs) {
        known.delete(token);
        return EXPIRED;
      }
      if (!watch.isFresh || !revoked.isComplete(nowMs)) return askOnce(token);
      fromMemory.inc();
      return verified;
    },
    refuseSession(sessionId) {
      revoked.addSession(sessionId, Date.now() + MAX_ACCESS_TOKEN_LIFETIME_MS);
    },
    assertReady() {
      if (!watch.isFresh) throw new DomainError("service_unavailable", "token-service is silent");
    },
    close() {
      watch.close();
      client.close();
    },
  };
}

/** What is missing or unknown in an answer means "deny". */
function decode(response: VerifyTokenResponse): Verification {
  if (response.active !== true) {
    if (response.reason === InactiveReason.EXPIRED) return EXPIRED;
    return response.reason === InactiveReason.REVOKED ? REVOKED : INVALID;
  }
  const principal = response.principal && decodePrincipal(response.principal);
  return principal === undefined ? INVALID : { kind: "active", principal };
}

function decodePrincipal(message: PrincipalMessage): Principal | undefined {
  const { userId, sessionId, tokenId, keyId, amr, authTime, issuedAt, expiresAt } = message;
  const role = ROLE[message.role];
  const isWhole = userId !== "" && sessionId !== "" && tokenId !== "" && keyId !== "";
  if (
    !isWhole ||
    role === undefined ||
    authTime === undefined ||
    issuedAt === undefined ||
    expiresAt === undefined
  ) {
    return undefined;
  }
  return { userId, sessionId, role, tokenId, keyId, amr, authTime, issuedAt, expiresAt };
}
