import type { JWK } from "jose";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { type Principal, PrincipalKind } from "#proto/gatehouse/token/v1/principal.ts";
import {
  InactiveReason,
  type Revocation as RevocationMessage,
  type TokenServiceServer,
  type VerificationKey as VerificationKeyMessage,
} from "#proto/gatehouse/token/v1/token_service.ts";
import type { Algorithm } from "#token-client/compact-jws.ts";
import type { KeyRing } from "./keys/key-ring.ts";
import { importPublicKey } from "./keys/signing-key.ts";
import type { Parts } from "./parts/parts.ts";
import type { HeldSlots, Revocation, VerificationKey } from "./revocations/revocation-store.ts";
import { accessTokenLifeS } from "./revocations/token-lifetimes.ts";
import { bindingIn, confirmationOf } from "./rows/confirmation.ts";
import { isOfClient } from "./tokens/access-token.ts";
import {
  type Refusal,
  refusedAtMs,
  type VerifiedToken,
  type VerifyTokenDeps,
  verifyToken,
} from "./tokens/verify-token.ts";

/** @param verifiers those beside our own services. */
export function tokenCallers(verifiers: readonly string[] = []): Callers<TokenServiceServer> {
  const all = ["gateway", ...verifiers];
  // identity-service asks for the issuer.
  return { verifyToken: all, watchRevocations: all, getJwks: ["identity-service", ...all] };
}

export interface TokenRpcDeps extends VerifyTokenDeps {
  keys: Pick<KeyRing, "find" | "findAgain" | "publicJwks">;
  revocations: Pick<Parts, "watch"> & VerifyTokenDeps["revocations"];
  jwksMaxAgeS: number;
}

export function createTokenRpc(deps: TokenRpcDeps): Implementation<TokenServiceServer> {
  return {
    async verifyToken({ token, acceptsBound, audience }) {
      const verdict = await verifyToken(deps, token, { acceptsBound, audience });
      return verdict.active
        ? {
            active: true,
            reason: InactiveReason.UNSPECIFIED,
            principal: toPrincipalMessage(verdict.token),
            expiresInMs: Math.max(1, refusedAtMs(verdict.token) - deps.now().getTime()),
          }
        : { active: false, reason: toReason(verdict.refusal), principal: undefined, expiresInMs: 0 };
    },
    async *watchRevocations({ afterSequence, tip }, { signal }) {
      let sentKeys: readonly VerificationKey[] | undefined;
      const sentSlots = new Map<number, HeldSlots>();
      for await (const batch of deps.revocations.watch({ sequence: afterSequence, tip }, signal)) {
        const { revocations, position, caughtUp, elapsedMs, readAt, keys, part, slots } = batch;
        yield {
          revocations: revocations.map(toRevocationMessage),
          ...position,
          caughtUp,
          elapsedMs: Math.floor(elapsedMs),
          readAt,
          keepS: accessTokenLifeS(deps.lifetimes.accessTtlS),
          rules: keys === sentKeys ? undefined : { issuer: deps.issuer, keys: keys.map(toKeyMessage) },
          part: part && {
            ...part,
            elapsedMs: Math.floor(part.elapsedMs),
            slots: sentSlots.get(part.number) === slots ? Buffer.alloc(0) : slots.bits,
          },
        };
        sentKeys = keys;
        if (part !== undefined) sentSlots.set(part.number, slots);
      }
    },
    async getJwks() {
      deps.assertClock(); // By it a key that still verifies could be missing, for as long as the answer is kept.
      return {
        jwksJson: JSON.stringify(deps.keys.publicJwks()),
        maxAgeS: deps.jwksMaxAgeS,
        issuer: deps.issuer,
      };
    },
  };
}

function toKeyMessage({ keyId, algorithm, publicJwk }: VerificationKey): VerificationKeyMessage {
  return { keyId, algorithm, publicKey: toDer(publicJwk, algorithm) };
}

/** Empty for a key of a later version's kind: its tokens are asked for, and the stream must not end over it. */
function toDer(publicJwk: JWK, algorithm: Algorithm): Buffer {
  try {
    return importPublicKey(publicJwk, algorithm).export({ type: "spki", format: "der" });
  } catch {
    return Buffer.alloc(0);
  }
}

function toReason(refusal: Refusal): InactiveReason {
  if (refusal === "exp") return InactiveReason.EXPIRED;
  return refusal === "revoked" ? InactiveReason.REVOKED : InactiveReason.INVALID;
}

function toPrincipalMessage({ claims, keyId = "" }: VerifiedToken): Principal {
  const common = {
    userId: claims.sub,
    sessionId: claims.sid,
    tokenId: claims.jti,
    keyId,
    issuedAt: new Date(claims.iat * 1_000),
    expiresAt: new Date(claims.exp * 1_000),
    confirmation: confirmationOf(bindingIn(claims.cnf)),
    audience: claims.aud,
    originTokenId: claims.origin_jti,
    originKeyId: claims.origin_kid,
  };
  if (isOfClient(claims)) {
    return {
      ...common,
      role: "",
      amr: [],
      acr: "",
      authTime: common.issuedAt,
      kind: PrincipalKind.CLIENT,
      clientId: claims.client_id,
      scopes: claims.scope.split(" "),
    };
  }
  return {
    ...common,
    role: claims.role,
    amr: claims.amr,
    acr: claims.acr,
    authTime: new Date(claims.auth_time * 1_000),
    kind: PrincipalKind.USER,
    clientId: "",
    scopes: [],
  };
}

function toRevocationMessage({ sequence, expiresAtS, sessionId, keyId }: Revocation): RevocationMessage {
  const target =
    sessionId === null
      ? ({ $case: "keyId", value: keyId } as const)
      : ({ $case: "sessionId", value: sessionId } as const);
  return { sequence, expiresAt: new Date(expiresAtS * 1_000), target };
}
