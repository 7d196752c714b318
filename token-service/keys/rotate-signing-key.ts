import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type EventCause, insertCausedEvent } from "../events/security-event-store.ts";
import { ensureNextKey, type SigningKeyDeps } from "./ensure-signing-keys.ts";
import { activateNextKey, listKeys, lockKeys, retireActiveKey, type SigningKeyRow } from "./key-store.ts";

export interface RotateSigningKeyDeps extends SigningKeyDeps {
  jwksMaxAgeS: number;
  maxAgeS: number;
}

export interface KeyEventCause extends EventCause {
  reason: string;
}

const BY_AGE: KeyEventCause = { reason: "age", requestId: "", traceId: "" };

/**
 * @param options.force uses a key that some readers do not know yet. @throws {DomainError} `conflict` if it is
 * too young.
 */
export async function rotateSigningKey(
  deps: RotateSigningKeyDeps,
  options: { force: boolean },
  cause: KeyEventCause,
): Promise<SigningKeyRow> {
  return transaction(deps.sql, async (tx) => {
    await lockKeys(tx);
    const keys = await listKeys(tx);
    if (!options.force && !isPublishedLongEnough(deps, keys)) {
      throw new DomainError(
        "conflict",
        `The next key has been published for less than ${2 * deps.jwksMaxAgeS} s; wait, or force the rotation`,
      );
    }
    return promoteNextKey(tx, deps, keys, cause);
  });
}

export async function rotateSigningKeyWhenDue(deps: RotateSigningKeyDeps): Promise<boolean> {
  return transaction(deps.sql, async (tx) => {
    await lockKeys(tx);
    const keys = await listKeys(tx);
    const active = keys.find((key) => key.state === "active");
    const activeForS = active?.activeForS ?? Number.POSITIVE_INFINITY;
    if (activeForS < deps.maxAgeS || !isPublishedLongEnough(deps, keys)) return false;
    await promoteNextKey(tx, deps, keys, BY_AGE);
    return true;
  });
}

function isPublishedLongEnough(deps: RotateSigningKeyDeps, keys: readonly SigningKeyRow[]): boolean {
  const next = keys.find((key) => key.state === "next");
  return next !== undefined && next.publishedForS >= 2 * deps.jwksMaxAgeS;
}

/** The caller holds `lockKeys`. @returns the active key. */
export async function promoteNextKey(
  tx: TransactionSql,
  deps: SigningKeyDeps,
  keys: readonly SigningKeyRow[],
  cause: KeyEventCause,
): Promise<SigningKeyRow> {
  await ensureNextKey(tx, deps, keys);
  await retireActiveKey(tx);
  await activateNextKey(tx);
  await ensureNextKey(tx, deps, []);
  const active = (await listKeys(tx)).find((key) => key.state === "active");
  if (active === undefined) throw new Error("no key is active after a rotation");
  await insertCausedEvent(tx, {
    ...cause,
    type: "signing_key_rotated",
    keyId: active.id,
    occurredAt: deps.now(),
  });
  return active;
}
