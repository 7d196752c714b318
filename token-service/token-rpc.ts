import {
  InactiveReason,
  type Revocation as RevocationMessage,
  type TokenServiceServer,
} from "../proto/gen/gatehouse/token/v1/token_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import type { KeyRing } from "./key-ring.ts";
import type { RevocationFeed } from "./revocation-feed.ts";
import type { Revocation } from "./revocation-store.ts";
import { toRoleMessage } from "./role-message.ts";
import { type Refusal, type VerifiedToken, type VerifyTokenDeps, verifyToken } from "./verify-token.ts";

/** Every service of ours, and every internal service that holds a certificate of the private CA for it. */
export function tokenCallers(verifiers: readonly string[]): Callers<TokenServiceServer> {
  return { verifyToken: verifiers, watchRevocations: verifiers, getJwks: verifiers };
}

export interface TokenRpcDeps extends VerifyTokenDeps {
  keys: KeyRing;
  revocations: RevocationFeed;
  jwksMaxAgeS: number;
}

/** Adapts TokenService to its use cases. Holds no logic: decode, call, encode. */
export function createTokenRpc(deps: TokenRpcDeps): Implementation<TokenServiceServer> {
  return {
    async verifyToken({ token }) {
      const verdict = await verifyToken(deps, token);
      return verdict.active
        ? {
            active: true,
            reason: InactiveReason.UNSPECIFIED,
            principal: toPrincipalMessage(verdict.token),
            expiresInMs: 0,
          }
        : { active: false, reason: toReason(verdict.refusal), principal: undefined, expiresInMs: 0 };
    },
    async *watchRevocations({ afterSequence }, { signal }) {
      for await (const batch of deps.revocations.watch(afterSequence, signal)) {
        yield { ...batch, revocations: batch.revocations.map(toRevocationMessage), ...NOT_TOLD_YET };
      }
    },
    async getJwks() {
      return { jwksJson: JSON.stringify(deps.keys.publicJwks()), maxAgeS: deps.jwksMaxAgeS };
    },
  };
}

const NOT_TOLD_YET = { tip: "", readAt: undefined, keepS: 0, rules: undefined };

function toReason(refusal: Refusal): InactiveReason {
  if (refusal === "exp") return InactiveReason.EXPIRED;
  return refusal === "revoked" ? InactiveReason.REVOKED : InactiveReason.INVALID;
}

function toPrincipalMessage({ claims, keyId }: VerifiedToken) {
  return {
    userId: claims.sub,
    sessionId: claims.sid,
    role: toRoleMessage(claims.role),
    tokenId: claims.jti,
    keyId,
    amr: claims.amr,
    authTime: new Date(claims.auth_time * 1_000),
    issuedAt: new Date(claims.iat * 1_000),
    expiresAt: new Date(claims.exp * 1_000),
  };
}

function toRevocationMessage({ sequence, expiresAt, sessionId, keyId }: Revocation): RevocationMessage {
  const target =
    sessionId === null
      ? ({ $case: "keyId", value: keyId } as const)
      : ({ $case: "sessionId", value: sessionId } as const);
  return { sequence, expiresAt, target };
}
