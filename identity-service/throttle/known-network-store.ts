import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { NetworkDigests } from "./network-digests.ts";

const MAX_NETWORKS_OF_ACCOUNT = 20;

/** Does equal work for unknown accounts. */
export async function findNetworkOfAccount(
  sql: Sql,
  { digest, networkDigest, email }: NetworkDigests & { email: string },
): Promise<{ isOwn: boolean; isUsed: boolean }> {
  const [row] = await sql<{ isOwn: boolean; isUsed: boolean }[]>`
    select
      exists (
        select from known_networks as known join users on users.id = known.user_id
        where known.digest = ${digest} and known.seen_at > now() - interval '30 days'
          and users.email = ${email} and users.password_epoch = known.password_epoch
      ) as "isOwn",
      exists (
        select from known_networks
        where network_digest = ${networkDigest} and seen_at > now() - interval '30 days'
      ) as "isUsed"
  `;
  return row ?? { isOwn: false, isUsed: false };
}

export async function isNetworkUsed(sql: Sql, networkDigest: Buffer): Promise<boolean> {
  const [row] = await sql<{ isUsed: boolean }[]>`
    select exists (
      select from known_networks
      where network_digest = ${networkDigest} and seen_at > now() - interval '30 days'
    ) as "isUsed"
  `;
  return row?.isUsed === true;
}

/** Writes, and locks the account, at most once a day per network. Ignores deleted accounts. */
export async function insertKnownNetwork(
  sql: Sql | TransactionSql,
  login: NetworkDigests & { userId: string; passwordEpoch: number },
): Promise<void> {
  const { digest, networkDigest, userId, passwordEpoch } = login;
  const written = await sql`
    with owner as materialized (
      select id from users where id = ${userId} and not exists (
        select from known_networks
        where digest = ${digest} and user_id = ${userId} and password_epoch = ${passwordEpoch}
          and seen_at > now() - interval '1 day'
      ) for key share
    )
    insert into known_networks (digest, network_digest, user_id, password_epoch, seen_at)
    select ${digest}, ${networkDigest}, id, ${passwordEpoch}, now() from owner
    on conflict (digest) do update
    set user_id = excluded.user_id, password_epoch = excluded.password_epoch, seen_at = excluded.seen_at
  `;
  if (written.count === 0) return;
  await sql`
    delete from known_networks where digest = any(array(
      select digest from known_networks where user_id = ${userId}
      order by seen_at desc, digest
      offset ${MAX_NETWORKS_OF_ACCOUNT}
      for update skip locked
    ))
  `;
}

/** Uses the database's clock. */
export async function deleteOldNetworks(sql: Sql, limit: number): Promise<number> {
  const result = await sql`
    delete from known_networks where digest = any(array(
      select digest from known_networks where seen_at < now() - interval '30 days'
      order by seen_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
