import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { STREAM_UPDATED } from "../stream/signal.ts";
import type { Endpoint, PausedReason, StoredSecrets } from "./endpoint.ts";

export type StoredPlaces = Record<string, number>;

/** With what only its courier needs. */
export interface CourierEndpoint extends Endpoint, StoredSecrets {
  places: StoredPlaces;
  version: number;
  failures: number;
  restsUntil: Date | null;
}

const columns = (sql: Sql | TransactionSql) => sql`
  id, kind, client_id as "clientId", name, url, types, owner_id as "ownerId", is_temporary as "isTemporary", status, paused_reason as "pausedReason",
  failing_since as "failingSince", former_secret_until as "formerSecretUntil", created_at as "createdAt", changed_at as "changedAt"
`;
export const courierColumns = (sql: Sql | TransactionSql) => sql`
  ${columns(sql)}, secret, former_secret as "formerSecret", places, version::int, failures, rests_until as "restsUntil"
`;

export interface NewEndpoint
  extends Pick<
    Endpoint,
    "id" | "kind" | "clientId" | "name" | "url" | "types" | "ownerId" | "isTemporary" | "createdAt"
  > {
  secret: Buffer;
  places: StoredPlaces;
}

/**
 * @param max of webhooks, or of streams that are not forbidden. Inserts at the same moment may exceed it by their number.
 * @returns undefined if there are so many already, or the client has a stream.
 */
export async function insertEndpoint(
  sql: Sql,
  endpoint: NewEndpoint,
  max: number,
): Promise<Endpoint | undefined> {
  const { id, kind, clientId, name, url, types, ownerId, isTemporary, secret, places, createdAt } = endpoint;
  const [row] = await sql<Endpoint[]>`
    insert into endpoints (id, kind, client_id, name, url, types, owner_id, is_temporary, secret, places, created_at, changed_at)
    select ${id}, ${kind}, ${clientId}, ${name}, ${url}, ${types}, ${ownerId}, ${isTemporary}, ${secret}, ${sql.json(places)}, ${createdAt},
      ${createdAt}
    where (select count(*) from endpoints
      where (kind = 'webhook') = ${kind === "webhook"} and paused_reason is distinct from 'forbidden') < ${max}
    on conflict (client_id) do nothing
    returning ${columns(sql)}
  `;
  return row;
}

export async function findEndpoint(sql: Sql, id: string): Promise<Endpoint | undefined> {
  const [row] = await sql<Endpoint[]>`select ${columns(sql)} from endpoints where id = ${id}`;
  return row;
}

/** Locks the row. */
export async function lockEndpoint(tx: TransactionSql, id: string): Promise<Endpoint | undefined> {
  const [row] = await tx<Endpoint[]>`
    select ${columns(tx)} from endpoints where id = ${id} for no key update
  `;
  return row;
}

export async function findCourierEndpoint(sql: Sql, id: string): Promise<CourierEndpoint | undefined> {
  const [row] = await sql<CourierEndpoint[]>`select ${courierColumns(sql)} from endpoints where id = ${id}`;
  return row;
}

/** Newest first. @param before an id. */
export async function selectEndpoints(
  sql: Sql,
  before: string | undefined,
  limit: number,
): Promise<Endpoint[]> {
  return sql<Endpoint[]>`
    select ${columns(sql)} from endpoints ${before === undefined ? sql`` : sql`where id < ${before}`}
    order by id desc limit ${limit}
  `;
}

/** What is undefined stays. */
export interface EndpointChange {
  name?: string | undefined;
  /** Another one. */
  url?: string | undefined;
  types?: readonly string[] | undefined;
  ownerId?: string | undefined;
  status?: Endpoint["status"] | undefined;
}

/** Active again, or at another address, it has no failures and is tried at once. */
export async function updateEndpoint(
  sql: Sql | TransactionSql,
  id: string,
  change: EndpointChange,
  at: Date,
): Promise<Endpoint | undefined> {
  const { name = null, url = null, types = null, ownerId = null, status } = change;
  const isAnew = status === "active" || url !== null;
  const [row] = await sql<Endpoint[]>`
    update endpoints set
      name = coalesce(${name}, name), url = coalesce(${url}, url), types = coalesce(${types as string[] | null}::text[], types),
      owner_id = coalesce(${ownerId}::uuid, owner_id),
      ${status === "paused" ? sql`status = 'paused', paused_reason = coalesce(paused_reason, 'asked'),` : sql``}
      ${status === "active" ? sql`status = 'active', paused_reason = null, untold_pause_at = null,` : sql``}
      ${isAnew ? sql`failures = 0, failing_since = null, rests_until = null,` : sql``}
      version = version + 1, changed_at = greatest(changed_at, ${at})
    where id = ${id} returning ${columns(sql)}
  `;
  if (row !== undefined && isAnew) await makeWaitingDue(sql, id);
  return row;
}

export async function makeWaitingDue(sql: Sql | TransactionSql, endpointId: string): Promise<void> {
  await sql`
    update deliveries set next_attempt_at = now()
    where endpoint_id = ${endpointId} and state = 'waiting' and next_attempt_at > now()
  `;
}

export async function deleteEndpoint(sql: Sql | TransactionSql, id: string): Promise<boolean> {
  const rows = await sql`delete from endpoints where id = ${id} returning id`;
  return rows.length > 0;
}

export interface SecretChange {
  secret: Buffer;
  /** Null: the former secret ends at once. */
  formerUntil: Date | null;
  at: Date;
}

export async function replaceSecret(
  sql: TransactionSql,
  id: string,
  { secret, formerUntil, at }: SecretChange,
): Promise<Endpoint | undefined> {
  const [row] = await sql<Endpoint[]>`
    update endpoints set
      former_secret = ${formerUntil === null ? sql`null` : sql`secret`}, former_secret_until = ${formerUntil},
      secret = ${secret}, version = version + 1, changed_at = greatest(changed_at, ${at})
    where id = ${id} returning ${columns(sql)}
  `;
  return row;
}

/** What waits is sent again too, in its order. */
export async function putBack(
  sql: Sql,
  id: string,
  places: StoredPlaces,
  at: Date,
): Promise<Endpoint | undefined> {
  const [row] = await sql<Endpoint[]>`
    update endpoints set places = places || ${sql.json(places)}, version = version + 1, changed_at = greatest(changed_at, ${at})
    where id = ${id} returning ${columns(sql)}
  `;
  return row;
}

export interface Lease {
  /** The replica. */
  holder: string;
  leaseMs: number;
}

/** Couriers serve active endpoints, and a stream that an administrator has paused until its receiver has been told. */
const isServed = (sql: TransactionSql) => sql`
  kind <> 'poll' and (status = 'active' or paused_reason = 'asked' and exists (
    select from deliveries where endpoint_id = endpoints.id and state = 'waiting' and type = ${STREAM_UPDATED}))
`;

/**
 * Renews the leases of the replica. If it has less than its share, it takes endpoints that nobody holds.
 * @returns the endpoints that it holds now.
 */
export async function claimEndpoints(tx: TransactionSql, lease: Lease): Promise<CourierEndpoint[]> {
  const share = await countShare(tx, lease);
  const until = tx`now() + make_interval(secs => ${lease.leaseMs / 1_000})`;
  // It waits for its own couriers, which may be storing a batch.
  const held = await tx<CourierEndpoint[]>`
    update endpoints set leased_until = ${until} where lease_holder = ${lease.holder} and ${isServed(tx)}
    returning ${courierColumns(tx)}
  `;
  const surplus = held.splice(share).map(({ id }) => id);
  if (surplus.length > 0)
    await tx`update endpoints set lease_holder = null, leased_until = null where id = any(${surplus})`;
  if (held.length >= share) return held;
  const taken = await tx<CourierEndpoint[]>`
    update endpoints set lease_holder = ${lease.holder}, leased_until = ${until}
    where id = any(array(
      select id from endpoints where ${isServed(tx)} and (leased_until is null or leased_until <= now())
      order by id limit ${share - held.length} for update skip locked))
    returning ${courierColumns(tx)}
  `;
  return [...held, ...taken];
}

/** Of this replica, among those that are there. */
async function countShare(tx: TransactionSql, { holder, leaseMs }: Lease): Promise<number> {
  await tx`
    insert into replicas (id, seen_at) values (${holder}, now()) on conflict (id) do update set seen_at = now()
  `;
  await tx`delete from replicas where seen_at < now() - interval '1 hour'`;
  const [row] = await tx<{ share: number }[]>`
    select ceil((select count(*) from endpoints where ${isServed(tx)})::numeric
      / (select count(*) from replicas where seen_at > now() - make_interval(secs => ${leaseMs / 1_000})))::int as share
  `;
  return row?.share ?? 0;
}

/** At a stop: others need not wait for the end of the leases. */
export async function releaseEndpoints(sql: Sql, holder: string): Promise<void> {
  await sql`update endpoints set lease_holder = null, leased_until = null where lease_holder = ${holder}`;
  await sql`delete from replicas where id = ${holder}`;
}

/** What became of a batch. */
export interface CourierState {
  places: StoredPlaces;
  failures: number;
  failingSince: Date | null;
  restsUntil: Date | null;
  pausedReason: PausedReason | null;
}

/** Locks the row. False if another replica has it, or somebody has changed it, since it was read. */
export async function lockHeld(
  tx: TransactionSql,
  { id, version }: Pick<CourierEndpoint, "id" | "version">,
  holder: string,
): Promise<boolean> {
  const rows = await tx`
    select from endpoints where id = ${id} and version = ${version} and lease_holder = ${holder} and leased_until > now()
    for no key update
  `;
  return rows.length > 0;
}

/** Requires the lock. */
export async function updateCourierState(tx: TransactionSql, id: string, state: CourierState): Promise<void> {
  const { places, failures, failingSince, restsUntil, pausedReason } = state;
  const isUntold = pausedReason !== null && pausedReason !== "asked";
  await tx`
    update endpoints set places = ${tx.json(places)}, failures = ${failures}, failing_since = ${failingSince},
      rests_until = ${restsUntil}, status = ${pausedReason === null ? "active" : "paused"}, paused_reason = ${pausedReason},
      untold_pause_at = ${isUntold ? tx`now()` : null}
    where id = ${id}
  `;
}

/** A pause that nobody asked for. */
export interface UntoldPause {
  /** Of the endpoint. */
  id: string;
  name: string;
  ownerId: string | null;
  reason: string;
  pausedAt: Date;
}

export async function selectUntoldPauses(sql: Sql, limit: number): Promise<UntoldPause[]> {
  return sql<UntoldPause[]>`
    select id, name, owner_id as "ownerId", paused_reason as reason, untold_pause_at as "pausedAt" from endpoints
    where untold_pause_at is not null order by untold_pause_at limit ${limit}
  `;
}

export async function markPauseTold(sql: Sql, id: string, pausedAt: Date): Promise<void> {
  await sql`update endpoints set untold_pause_at = null where id = ${id} and untold_pause_at = ${pausedAt}`;
}

export type EncryptedSecrets = Pick<StoredSecrets, "secret" | "formerSecret"> & { id: string };

/** Of all endpoints. */
export async function selectSecrets(sql: Sql): Promise<EncryptedSecrets[]> {
  return sql<EncryptedSecrets[]>`select id, secret, former_secret as "formerSecret" from endpoints`;
}

/** Unless somebody has replaced it. */
export async function replaceEncrypted(
  sql: Sql,
  before: EncryptedSecrets,
  after: EncryptedSecrets,
): Promise<void> {
  await sql`
    update endpoints set secret = ${after.secret}, former_secret = ${after.formerSecret}
    where id = ${before.id} and secret = ${before.secret}
  `;
}
