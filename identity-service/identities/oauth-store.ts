import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export interface OAuthFlow {
  stateHash: Buffer;
  browserHash: Buffer;
  provider: string;
  returnTo: string;
  /** Null: tokens instead of a code. */
  codeChallenge: string | null;
  linkUserId: string | null;
  linkSessionEpoch: number | null;
  /** Null for a login. */
  linkSessionId: string | null;
  createdAt: Date;
  expiresAt: Date;
}

export interface OAuthCode {
  codeHash: Buffer;
  codeChallenge: string;
  userId: string;
  sessionEpoch: number;
  authTime: Date;
  expiresAt: Date;
}

export async function insertFlow(sql: Sql, flow: OAuthFlow): Promise<void> {
  await sql`
    insert into oauth_flows (state_hash, browser_hash, provider, return_to, code_challenge, link_user_id,
      link_session_epoch, link_session_id, created_at, expires_at)
    values (${flow.stateHash}, ${flow.browserHash}, ${flow.provider}, ${flow.returnTo}, ${flow.codeChallenge},
      ${flow.linkUserId}, ${flow.linkSessionEpoch}, ${flow.linkSessionId}, ${flow.createdAt}, ${flow.expiresAt})
  `;
}

/** Consumes a flow. Knowledge of the state alone must not suffice to end it. */
export async function takeFlow(
  sql: Sql,
  wanted: Pick<OAuthFlow, "stateHash" | "browserHash" | "provider"> & { now: Date },
): Promise<OAuthFlow | undefined> {
  const [row] = await sql<OAuthFlow[]>`
    delete from oauth_flows
    where state_hash = ${wanted.stateHash} and browser_hash = ${wanted.browserHash}
      and provider = ${wanted.provider} and expires_at > ${wanted.now}
    returning state_hash as "stateHash", browser_hash as "browserHash", provider, return_to as "returnTo",
      code_challenge as "codeChallenge", link_user_id as "linkUserId", link_session_epoch as "linkSessionEpoch",
      link_session_id as "linkSessionId", created_at as "createdAt", expires_at as "expiresAt"
  `;
  return row;
}

export async function insertCode(sql: Sql, code: OAuthCode): Promise<void> {
  await sql`
    insert into oauth_codes (code_hash, code_challenge, user_id, session_epoch, auth_time, expires_at)
    values (${code.codeHash}, ${code.codeChallenge}, ${code.userId}, ${code.sessionEpoch}, ${code.authTime},
      ${code.expiresAt})
  `;
}

export async function takeCode(
  sql: Sql,
  { codeHash, now }: { codeHash: Buffer; now: Date },
): Promise<OAuthCode | undefined> {
  const [row] = await sql<OAuthCode[]>`
    delete from oauth_codes where code_hash = ${codeHash} and expires_at > ${now}
    returning code_hash as "codeHash", code_challenge as "codeChallenge", user_id as "userId",
      session_epoch as "sessionEpoch", auth_time as "authTime", expires_at as "expiresAt"
  `;
  return row;
}

/** Returns false if it was received before. */
export async function insertReceivedEvent(
  tx: TransactionSql,
  { eventHash, expiresAt }: { eventHash: Buffer; expiresAt: Date },
): Promise<boolean> {
  const result = await tx`
    insert into received_events (event_hash, expires_at) values (${eventHash}, ${expiresAt})
    on conflict do nothing
  `;
  return result.count === 1;
}

export async function deleteFlowsOfUser(tx: TransactionSql, userId: string): Promise<void> {
  await tx`delete from oauth_flows where link_user_id = ${userId}`;
  await tx`delete from oauth_codes where user_id = ${userId}`;
}

export async function deleteExpired(sql: Sql, now: Date, limit: number): Promise<number> {
  const flows = await sql`
    delete from oauth_flows where state_hash in (
      select state_hash from oauth_flows where expires_at <= ${now} limit ${limit}
    )
  `;
  const codes = await sql`
    delete from oauth_codes where code_hash in (
      select code_hash from oauth_codes where expires_at <= ${now} limit ${limit}
    )
  `;
  const events = await sql`
    delete from received_events where event_hash in (
      select event_hash from received_events where expires_at <= ${now} limit ${limit}
    )
  `;
  return flows.count + codes.count + events.count;
}
