import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { LinkPurpose } from "./links.ts";

export interface OpenLink {
  id: string;
  userId: string;
  newEmail: string | null;
  /** Whether the former address of an undo link had proven them. */
  areCredentialsProven: boolean;
  /** An administrator knows whose the new address is. */
  isVouched: boolean;
  /** Null without a session. */
  sessionId: string | null;
  createdAt: Date;
}

export async function insertLink(
  tx: TransactionSql,
  link: {
    id: string;
    tokenHash: Buffer;
    purpose: LinkPurpose;
    userId: string;
    newEmail: string | null;
    areCredentialsProven: boolean;
    isVouched: boolean;
    sessionId: string | null;
    createdAt: Date;
    expiresAt: Date;
  },
): Promise<void> {
  await tx`
    insert into links (id, token_hash, purpose, user_id, new_email, are_credentials_proven, is_vouched, session_id,
      created_at, expires_at)
    values (${link.id}, ${link.tokenHash}, ${link.purpose}, ${link.userId}, ${link.newEmail},
      ${link.areCredentialsProven}, ${link.isVouched}, ${link.sessionId}, ${link.createdAt}, ${link.expiresAt})
  `;
}

/** `consumeLink` decides finally. */
export async function findOpenLink(
  sql: Sql,
  which: { tokenHash: Buffer; purpose: LinkPurpose; now: Date },
): Promise<OpenLink | undefined> {
  const [row] = await sql<OpenLink[]>`
    select id, user_id as "userId", new_email as "newEmail",
      are_credentials_proven as "areCredentialsProven", is_vouched as "isVouched", session_id as "sessionId",
      created_at as "createdAt"
    from links
    where token_hash = ${which.tokenHash} and purpose = ${which.purpose}
      and consumed_at is null and expires_at > ${which.now}
  `;
  return row;
}

/** Call in the transaction of the effect. Returns false if the link has ended. */
export async function consumeLink(tx: TransactionSql, id: string, now: Date): Promise<boolean> {
  const result = await tx`
    update links set consumed_at = ${now}
    where id = ${id} and consumed_at is null and expires_at > ${now}
  `;
  return result.count === 1;
}

/** Only those created since `from`, if given, and none to the new address `exceptTo`. */
export async function killLinks(
  tx: TransactionSql,
  which: {
    userId: string;
    purposes: readonly LinkPurpose[];
    now: Date;
    from?: Date;
    exceptTo?: string | null;
  },
): Promise<void> {
  await tx`
    update links set consumed_at = ${which.now}
    where user_id = ${which.userId} and purpose = any(${[...which.purposes]}) and consumed_at is null
      and created_at >= ${which.from ?? new Date(0)}
      and (new_email is null or new_email is distinct from ${which.exceptTo ?? null})
  `;
}

/** Creation of the earliest open undo link to this address. */
export async function findOwnUndo(
  tx: TransactionSql,
  which: { userId: string; email: string; now: Date },
): Promise<Date | undefined> {
  const [row] = await tx<{ createdAt: Date }[]>`
    select created_at as "createdAt" from links
    where user_id = ${which.userId} and purpose = 'undo_email_change' and new_email = ${which.email}
      and consumed_at is null and expires_at > ${which.now}
    order by created_at limit 1
  `;
  return row?.createdAt;
}

/** Includes used links. */
export async function countLinksSince(
  tx: TransactionSql,
  which: { userId: string; purpose: LinkPurpose; since: Date },
): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from links
    where user_id = ${which.userId} and purpose = ${which.purpose} and created_at > ${which.since}
  `;
  return row?.count ?? 0;
}

/** @param which.madeAfter an invitation lives longer than other links of its purpose. */
export async function countOpenLinks(
  tx: TransactionSql,
  which: { userId: string; purpose: LinkPurpose; now: Date; madeAfter: Date },
): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from links
    where user_id = ${which.userId} and purpose = ${which.purpose}
      and consumed_at is null and expires_at > ${which.now} and created_at > ${which.madeAfter}
  `;
  return row?.count ?? 0;
}

export async function deleteEndedLinks(sql: Sql, endedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from links where id = any(array(
      select id from links where expires_at < ${endedBefore} order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
