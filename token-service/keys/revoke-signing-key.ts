import { transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { insertCausedEvent } from "../events/security-event-store.ts";
import type { RevocationFeed } from "../revocations/revocation-feed.ts";
import { appendRevocations } from "../revocations/revocation-store.ts";
import { accessTokenLifeS } from "../revocations/token-lifetimes.ts";
import { ensureNextKey, type SigningKeyDeps } from "./ensure-signing-keys.ts";
import { listKeys, lockKeys, markKeyRevoked } from "./key-store.ts";
import { type KeyEventCause, promoteNextKey } from "./rotate-signing-key.ts";

export interface RevokeSigningKeyDeps extends SigningKeyDeps {
  accessTtlS: number;
  revocations: Pick<RevocationFeed, "announce">;
}

/**
 * Refresh tokens also depend on the session's secret, so sessions survive. @throws {DomainError} `not_found`.
 */
export async function revokeSigningKey(
  deps: RevokeSigningKeyDeps,
  keyId: string,
  cause: KeyEventCause,
): Promise<number> {
  const sequence = await transaction(deps.sql, async (tx) => {
    await lockKeys(tx);
    const keys = await listKeys(tx);
    const key = keys.find(({ id }) => id === keyId);
    if (key === undefined) throw new DomainError("not_found", "There is no such signing key");
    if (key.state === "active") await promoteNextKey(tx, deps, keys, cause);
    const now = deps.now();
    await markKeyRevoked(tx, keyId);
    if (key.state === "next") await ensureNextKey(tx, deps, []);
    if (key.state !== "revoked")
      await insertCausedEvent(tx, { ...cause, type: "signing_key_revoked", keyId, occurredAt: now });
    const targets = key.state === "revoked" ? [] : [{ keyId }];
    return appendRevocations(tx, targets, accessTokenLifeS(deps.accessTtlS));
  });
  deps.revocations.announce();
  return sequence;
}
