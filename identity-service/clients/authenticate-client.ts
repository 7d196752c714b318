import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { validate as isUuid } from "uuid";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { judgeTry } from "../throttle/count-guess.ts";
import type { ClientLimits } from "./client-limits.ts";
import { type LiveCredential, noteCredentialUse, selectLiveCredentials } from "./credential-store.ts";
import { readAssertion, type VerifyAssertionDeps, verifyAssertion } from "./verify-assertion.ts";

export interface AuthenticateClientDeps extends VerifyAssertionDeps {
  sql: Sql;
  clientLimits: ClientLimits;
  now: () => Date;
}

export type ClientProof =
  | { kind: "assertion"; assertion: string }
  | { kind: "secret"; clientId: string; secret: string };

const NOBODY = "00000000-0000-0000-0000-000000000000";
const MAX_SECRETS = 2;
const USE_NOTED_EVERY_MS = 60_000;
const DECOY = randomBytes(32);

/**
 * Whatever is wrong with the proof, the caller learns the same, after the same work. @throws {DomainError} `invalid_client`,
 * `too_many_requests`.
 */
export async function authenticateClient(
  deps: AuthenticateClientDeps,
  proof: ClientProof,
  clientIp: string,
): Promise<LiveCredential> {
  const claimed =
    proof.kind === "assertion"
      ? readAssertion(proof.assertion, deps)
      : claimedSecret(proof.clientId, proof.secret);
  const clientId = isUuid(claimed.clientId) ? claimed.clientId : NOBODY;
  const secretHash = "secretHash" in claimed ? claimed.secretHash : undefined;
  const attempt = deps.clientLimits.begin({ clientId, clientIp, secretHash });
  const verify = () =>
    "secretHash" in claimed ? verifySecret(deps, claimed) : verifyAssertion(deps, claimed);
  const credential = await judgeTry(verify, attempt.giveBack);
  if (credential === undefined) throw new DomainError("invalid_client");
  attempt.succeeded(credential.clientId);
  await noteUse(deps, credential);
  return credential;
}

interface ClaimedSecret {
  clientId: string;
  secretHash: Buffer;
}

function claimedSecret(clientId: string, secret: string): ClaimedSecret {
  return { clientId, secretHash: createHash("sha256").update(secret).digest() };
}

async function verifySecret(
  deps: AuthenticateClientDeps,
  { clientId, secretHash }: ClaimedSecret,
): Promise<LiveCredential | undefined> {
  const owned = await selectLiveCredentials(deps.sql, isUuid(clientId) ? clientId : NOBODY, "secret");
  let proven: LiveCredential | undefined;
  for (let index = 0; index < MAX_SECRETS; index += 1) {
    const credential = owned[index];
    if (timingSafeEqual(credential?.secretHash ?? DECOY, secretHash)) proven ??= credential;
  }
  return proven;
}

export async function noteUse(
  deps: Pick<AuthenticateClientDeps, "sql" | "now">,
  { id, lastUsedAt }: LiveCredential,
): Promise<void> {
  const now = deps.now();
  if (lastUsedAt !== null && now.getTime() - lastUsedAt.getTime() < USE_NOTED_EVERY_MS) return;
  await noteCredentialUse(deps.sql, id, now);
}
