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
  const claimed = proof.kind === "assertion" ? readAssertion(proof.assertion, deps) : undefined;
  const clientId = proof.kind === "secret" ? proof.clientId : (claimed?.clientId ?? "");
  const attempt = deps.clientLimits.begin({ clientId: isUuid(clientId) ? clientId : NOBODY, clientIp });
  const verify = () =>
    claimed === undefined
      ? verifySecret(deps, proof as Extract<ClientProof, { kind: "secret" }>)
      : verifyAssertion(deps, claimed);
  const credential = await judgeTry(verify, attempt.giveBack);
  if (credential === undefined) throw new DomainError("invalid_client");
  attempt.succeeded(credential.clientId);
  await noteUse(deps, credential);
  return credential;
}

async function verifySecret(
  deps: AuthenticateClientDeps,
  { clientId, secret }: { clientId: string; secret: string },
): Promise<LiveCredential | undefined> {
  const owned = await selectLiveCredentials(deps.sql, isUuid(clientId) ? clientId : NOBODY, "secret");
  const digest = createHash("sha256").update(secret).digest();
  let proven: LiveCredential | undefined;
  for (let index = 0; index < MAX_SECRETS; index += 1) {
    const credential = owned[index];
    if (timingSafeEqual(credential?.secretHash ?? DECOY, digest)) proven ??= credential;
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
