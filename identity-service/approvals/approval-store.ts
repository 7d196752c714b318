import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export type ApprovalLevel = 2 | 3;
/** A passkey reaches each level. */
export const MAX_LEVEL_OF_CODES = 2;

export interface NewApproval {
  id: string;
  /** SHA-256 of the token. */
  tokenHash: Buffer;
  userId: string;
  sessionId: string;
  /** RFC 8785. The digest is its SHA-256. */
  transactionText: string;
  digest: Buffer;
  acr: ApprovalLevel;
  nonce: Buffer;
  createdAt: Date;
  expiresAt: Date;
}

/** As presented: only its own user and session find it. */
export type ApprovalKey = { userId: string; sessionId: string } & (
  | { tokenHash: Buffer; id?: undefined }
  | { id: string }
);

export interface Approval {
  id: string;
  tokenHash: Buffer;
  sessionId: string;
  transactionText: string;
  digest: Buffer;
  nonce: Buffer;
  acr: ApprovalLevel;
  createdAt: Date;
  expiresAt: Date;
  attempts: number;
  /** Null until given. */
  method: string | null;
  usedAt: Date | null;
  refusedAt: Date | null;
  idempotencyHash: Buffer | null;
}

export interface ApprovalUse {
  tokenHash: Buffer;
  userId: string;
  sessionId: string;
  digest: Buffer;
  /** The level that is demanded. */
  acr: number;
  /** Null without a key. */
  idempotencyHash: Buffer | null;
  now: Date;
}

const columns = (sql: Sql | TransactionSql) => sql`
  id, token_hash as "tokenHash", session_id as "sessionId", transaction_text as "transactionText", digest, nonce, acr,
  created_at as "createdAt", expires_at as "expiresAt", attempts, method, used_at as "usedAt", refused_at as "refusedAt",
  idempotency_hash as "idempotencyHash"
`;
const ofKey = (sql: TransactionSql, key: ApprovalKey) => sql`
  ${key.id === undefined ? sql`token_hash = ${key.tokenHash}` : sql`id = ${key.id}`}
  and user_id = ${key.userId} and session_id = ${key.sessionId}
`;

export async function insertApproval(tx: TransactionSql, approval: NewApproval): Promise<void> {
  await tx`
    insert into approvals
      (id, token_hash, user_id, session_id, transaction_text, digest, acr, nonce, created_at, expires_at)
    values
      (${approval.id}, ${approval.tokenHash}, ${approval.userId}, ${approval.sessionId}, ${approval.transactionText},
       ${approval.digest}, ${approval.acr}, ${approval.nonce}, ${approval.createdAt}, ${approval.expiresAt})
  `;
}

/**
 * Requires the account lock. Keeps the newest `count` that were not used. A use takes no such lock, so the deletion looks
 * again after it has waited: otherwise the evidence of a use would go.
 */
export async function keepNewestUnused(tx: TransactionSql, sessionId: string, count: number): Promise<void> {
  await tx`
    delete from approvals where used_at is null and id in (
      select id from approvals where session_id = ${sessionId} and used_at is null
      order by created_at desc, id desc offset ${count}
    )
  `;
}

/** In any state. */
export async function findApproval(tx: TransactionSql, key: ApprovalKey): Promise<Approval | undefined> {
  const [row] = await tx<Approval[]>`select ${columns(tx)} from approvals where ${ofKey(tx, key)}`;
  return row;
}

/** In any state, and of any session of the user. */
export async function findOwnApproval(
  sql: Sql | TransactionSql,
  { id, userId }: { id: string; userId: string },
): Promise<Approval | undefined> {
  const [row] = await sql<Approval[]>`
    select ${columns(sql)} from approvals where id = ${id} and user_id = ${userId}
  `;
  return row;
}

/** Newest first. @param past false: neither given nor refused, with tries left; true: the others. */
export async function selectOwnApprovals(
  sql: Sql,
  { userId, past }: { userId: string; past: boolean },
  { now, maxTries, limit }: { now: Date; maxTries: number; limit: number },
): Promise<Approval[]> {
  return sql<Approval[]>`
    select ${columns(sql)} from approvals
    where user_id = ${userId} and ${
      past
        ? sql`(given_at is not null or refused_at is not null or expires_at <= ${now} or attempts >= ${maxTries})`
        : sql`used_at is null and given_at is null and refused_at is null
            and expires_at > ${now} and attempts < ${maxTries}`
    }
    order by created_at desc, id desc limit ${limit}
  `;
}

/** One statement decides between this and a use. Undefined if it was used, was refused or has ended. */
export async function markRefused(
  tx: TransactionSql,
  { id, userId }: { id: string; userId: string },
  now: Date,
): Promise<Approval | undefined> {
  const [row] = await tx<Approval[]>`
    update approvals set refused_at = ${now}
    where id = ${id} and user_id = ${userId} and used_at is null and refused_at is null and expires_at > ${now}
    returning ${columns(tx)}
  `;
  return row;
}

/** Undefined if it was given or refused, has ended or has had `maxTries`. */
export async function countApprovalTry(
  tx: TransactionSql,
  key: ApprovalKey,
  { now, maxTries }: { now: Date; maxTries: number },
): Promise<Approval | undefined> {
  const [row] = await tx<Approval[]>`
    update approvals set attempts = attempts + 1
    where ${ofKey(tx, key)} and given_at is null and refused_at is null and expires_at > ${now} and attempts < ${maxTries}
    returning ${columns(tx)}
  `;
  return row;
}

/** Requires the lock of `countApprovalTry`. */
export async function giveApproval(
  tx: TransactionSql,
  id: string,
  { method, now, evidence }: { method: string; now: Date; evidence?: PasskeyEvidence | undefined },
): Promise<void> {
  await tx`
    update approvals
    set method = ${method}, given_at = ${now}, passkey_id = ${evidence?.passkeyId ?? null},
      credential_id = ${evidence?.credentialId ?? null}, public_key = ${evidence?.publicKey ?? null},
      authenticator_data = ${evidence?.authenticatorData ?? null}, client_data = ${evidence?.clientData ?? null},
      signature = ${evidence?.signature ?? null}, rp_id = ${evidence?.rpId ?? null}
    where id = ${id}
  `;
}

/** Single use: one statement decides. Undefined if it may not be used. */
export async function consumeApproval(tx: TransactionSql, use: ApprovalUse): Promise<Approval | undefined> {
  const [row] = await tx<Approval[]>`
    update approvals set used_at = ${use.now}, idempotency_hash = ${use.idempotencyHash}
    where ${ofKey(tx, use)} and digest = ${use.digest} and given_at is not null and used_at is null
      and refused_at is null and expires_at > ${use.now}
      and (method = 'passkey' or ${use.acr} <= ${MAX_LEVEL_OF_CODES}::integer)
    returning ${columns(tx)}
  `;
  return row;
}

/** What a passkey has signed, and what verifies it. */
export interface PasskeyEvidence {
  nonce: Buffer;
  passkeyId: string;
  credentialId: Buffer;
  /** COSE_Key. */
  publicKey: Buffer;
  authenticatorData: Buffer;
  clientData: Buffer;
  signature: Buffer;
  rpId: string;
}

export interface UsedApproval {
  id: string;
  transactionText: string;
  digest: Buffer;
  method: string;
  usedAt: Date;
  /** Undefined unless a passkey gave it. */
  passkey: PasskeyEvidence | undefined;
}

export interface UsedApprovalFilter {
  /** Excluded itself. */
  after: { usedAt: Date; id: string } | undefined;
  from: Date | undefined;
  to: Date | undefined;
  limit: number;
}

/** In the order of their use. */
export async function selectUsedApprovals(
  sql: Sql,
  { after, from, to, limit }: UsedApprovalFilter,
): Promise<UsedApproval[]> {
  const rows = await sql<
    (Omit<UsedApproval, "passkey"> & { [name in keyof PasskeyEvidence]: PasskeyEvidence[name] | null })[]
  >`
    select id, transaction_text as "transactionText", digest, method, used_at as "usedAt", nonce,
      passkey_id as "passkeyId", credential_id as "credentialId", public_key as "publicKey",
      authenticator_data as "authenticatorData", client_data as "clientData", signature, rp_id as "rpId"
    from approvals
    where used_at is not null
      ${after === undefined ? sql`` : sql`and (used_at, id) > (${after.usedAt}, ${after.id})`}
      ${from === undefined ? sql`` : sql`and used_at >= ${from}`}
      ${to === undefined ? sql`` : sql`and used_at < ${to}`}
    order by used_at, id limit ${limit}
  `;
  return rows.map(({ id, transactionText, digest, method, usedAt, ...evidence }) => ({
    id,
    transactionText,
    digest,
    method,
    usedAt,
    passkey: isWhole(evidence) ? evidence : undefined,
  }));
}

/** The database has all or none. */
function isWhole(
  evidence: {
    [name in keyof PasskeyEvidence]: PasskeyEvidence[name] | null;
  },
): evidence is PasskeyEvidence {
  return evidence.passkeyId !== null;
}

export async function deleteUnusedApprovals(sql: Sql, endedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from approvals where id = any(array(
      select id from approvals where used_at is null and expires_at < ${endedBefore}
      order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}

export async function deleteUsedApprovals(sql: Sql, usedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from approvals where id = any(array(
      select id from approvals where used_at < ${usedBefore} order by used_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
