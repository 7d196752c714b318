import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export interface LinkedIdentity {
  provider: string;
  /** As reported when linked. */
  email: string | null;
  linkedAt: Date;
  userId: string;
}

export async function findIdentityUser(
  tx: Sql | TransactionSql,
  key: { issuer: string; subject: string },
): Promise<string | undefined> {
  const [row] = await tx<{ userId: string }[]>`
    select user_id as "userId" from external_identities
    where issuer = ${key.issuer} and subject = ${key.subject}
  `;
  return row?.userId;
}

/** Returns false if it is linked, or the user has another one of this provider. */
export async function insertIdentity(
  tx: TransactionSql,
  identity: LinkedIdentity & { issuer: string; subject: string },
): Promise<boolean> {
  const { issuer, subject, userId, provider, email, linkedAt } = identity;
  const result = await tx`
    insert into external_identities (issuer, subject, user_id, provider, email, linked_at)
    values (${issuer}, ${subject}, ${userId}, ${provider}, ${email}, ${linkedAt})
    on conflict do nothing
  `;
  return result.count === 1;
}

export interface NewIdentity extends LinkedIdentity {
  issuer: string;
  subject: string;
}

/** @throws a violation of `external_identities_pkey` for one that is linked. */
export async function insertIdentities(
  tx: TransactionSql,
  identities: readonly NewIdentity[],
): Promise<void> {
  if (identities.length === 0) return;
  const rows = identities.map(({ userId, linkedAt, ...identity }) => ({
    ...identity,
    user_id: userId,
    linked_at: linkedAt,
  }));
  await tx`insert into external_identities ${tx(rows)}`;
}

/** Of these identities, those that are linked. */
export async function findLinkedIdentities(
  sql: Sql | TransactionSql,
  keys: readonly { issuer: string; subject: string }[],
): Promise<{ issuer: string; subject: string }[]> {
  if (keys.length === 0) return [];
  return sql<{ issuer: string; subject: string }[]>`
    select issuer, subject from external_identities
    where (issuer, subject) in (
      select * from unnest(${keys.map(({ issuer }) => issuer)}::text[], ${keys.map(({ subject }) => subject)}::text[])
    )
  `;
}

/** Oldest first. */
export async function listIdentities(sql: Sql | TransactionSql, userId: string): Promise<LinkedIdentity[]> {
  return sql<LinkedIdentity[]>`
    select provider, email, linked_at as "linkedAt", user_id as "userId" from external_identities
    where user_id = ${userId} order by linked_at, provider
  `;
}

/** Requires the account lock. */
export async function deleteIdentity(
  tx: TransactionSql,
  identity: { userId: string; provider: string },
): Promise<void> {
  await tx`
    delete from external_identities where user_id = ${identity.userId} and provider = ${identity.provider}
  `;
}

/** Requires the account lock. Returns the provider names. */
export async function deleteIdentitiesSince(
  tx: TransactionSql,
  userId: string,
  since: Date,
): Promise<string[]> {
  const rows = await tx<{ provider: string }[]>`
    delete from external_identities where user_id = ${userId} and linked_at >= ${since} returning provider
  `;
  return rows.map(({ provider }) => provider).sort();
}

/** Requires the account lock. Returns the provider names. */
export async function deleteOtherIdentities(
  tx: TransactionSql,
  userId: string,
  kept: { issuer: string; subject: string } | null,
): Promise<string[]> {
  const rows = await tx<{ provider: string }[]>`
    delete from external_identities
    where user_id = ${userId}
      and (issuer, subject) is distinct from (${kept?.issuer ?? null}::text, ${kept?.subject ?? null}::text)
    returning provider
  `;
  return rows.map(({ provider }) => provider).sort();
}
