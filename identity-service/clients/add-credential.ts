import { createHash } from "node:crypto";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { withReason } from "../audit/act-reason.ts";
import { recordAudit } from "../audit/record-audit.ts";
import type { ApiKeyIds } from "./api-keys.ts";
import { assertMayGrant } from "./assert-may-grant.ts";
import { checkPublicKey } from "./client-key.ts";
import { lockClient, touchClient } from "./client-store.ts";
import { type ClientsDeps, clientName } from "./create-client.ts";
import {
  type ClientCredential,
  type CredentialKind,
  type CredentialProof,
  insertCredential,
  selectCredentials,
} from "./credential-store.ts";

export interface AddCredentialDeps extends ClientsDeps {
  apiKeyIds: ApiKeyIds;
  randomBytes: (count: number) => Buffer;
}

export interface NewCredential {
  clientId: string;
  kind: CredentialKind;
  /** May be empty. */
  name: string;
  /** JSON; of a public key only. */
  publicJwkJson: string;
}

/** Two make a rotation possible without a failed call. */
const MAX_OF_KIND = 2;
const SECRET_BYTES = 32;

/**
 * @param why as `actReason` lets it pass. @returns the secret or API key, which is not kept. @throws {DomainError} `not_found`, `validation_failed`, `conflict`,
 * `forbidden`.
 */
export async function addCredential(
  deps: AddCredentialDeps,
  wanted: NewCredential,
  context: CallContext,
  why = "",
): Promise<{ credential: ClientCredential; secret: string }> {
  const { proof, keyId, secret } = await makeProof(deps, wanted);
  const credential: ClientCredential = {
    id: deps.newId(),
    kind: wanted.kind,
    name: wanted.name === "" ? "" : clientName(wanted.name),
    keyId,
    createdAt: deps.now(),
    lastUsedAt: null,
  };
  await transaction(deps.sql, async (tx) => {
    const client = await lockClient(tx, wanted.clientId);
    if (client === undefined) throw new DomainError("not_found");
    assertMayGrant(deps, context, client.permissions);
    const ofKind = (await selectCredentials(tx, client.id)).filter(({ kind }) => kind === wanted.kind);
    if (ofKind.length >= MAX_OF_KIND)
      throw new DomainError("conflict", "The client has two credentials of this kind: remove one first.");
    if (!(await insertCredential(tx, client.id, { ...credential, ...proof })))
      throw new DomainError("conflict", "The client has this key already.");
    await touchClient(tx, client.id, deps.now());
    const reason = withReason(`${credential.kind} ${credential.id}`, why);
    await recordAudit(tx, deps, { type: "client_credential_added", userId: client.id, reason }, context);
  });
  return { credential, secret };
}

async function makeProof(
  deps: AddCredentialDeps,
  { kind, publicJwkJson }: NewCredential,
): Promise<{ proof: CredentialProof; keyId: string; secret: string }> {
  if (kind === "public_key") {
    const publicJwk = await checkPublicKey(publicJwkJson);
    return { proof: { publicJwk, secretHash: null }, keyId: publicJwk.kid, secret: "" };
  }
  const secret = deps.randomBytes(SECRET_BYTES).toString("base64url");
  const proof = { publicJwk: null, secretHash: createHash("sha256").update(secret).digest() };
  if (kind === "secret") return { proof, keyId: "", secret };
  const publicId = await deps.apiKeyIds.create();
  return { proof, keyId: publicId, secret: `gh_${publicId}_${secret}` };
}
