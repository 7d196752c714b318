import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { PausedReason } from "./endpoint.ts";
import { type CourierEndpoint, courierColumns, makeWaitingDue, type StoredPlaces } from "./endpoint-store.ts";

/** Streams of Shared Signals are endpoints with a client. */

/** With their secrets and places. */
export async function findStream(sql: Sql, clientId: string): Promise<CourierEndpoint | undefined> {
  const [row] = await sql<CourierEndpoint[]>`
    select ${courierColumns(sql)} from endpoints where client_id = ${clientId}
  `;
  return row;
}

export interface StreamChange {
  kind: "push" | "poll";
  url: string;
  types: readonly string[];
  name: string;
  secret: Buffer;
  at: Date;
}

/** At another address it has no failures. What waits is tried at once. */
export async function updateStream(sql: Sql, id: string, change: StreamChange): Promise<void> {
  const { kind, url, types, name, secret, at } = change;
  await sql`
    update endpoints set kind = ${kind}, url = ${url}, types = ${types as string[]}, name = ${name}, secret = ${secret},
      former_secret = null, former_secret_until = null, version = version + 1, changed_at = greatest(changed_at, ${at}),
      failures = case when url = ${url} then failures else 0 end,
      failing_since = case when url = ${url} then failing_since end, rests_until = case when url = ${url} then rests_until end
    where id = ${id}
  `;
  await makeWaitingDue(sql, id);
}

export interface StreamStatus {
  pausedReason: Extract<PausedReason, "asked" | "disabled"> | null;
  /** Where it goes on; undefined: where it was. */
  places: StoredPlaces | undefined;
  at: Date;
}

export async function updateStreamStatus(
  tx: TransactionSql,
  id: string,
  { pausedReason, places, at }: StreamStatus,
): Promise<void> {
  await tx`
    update endpoints set status = ${pausedReason === null ? "active" : "paused"}, paused_reason = ${pausedReason}, untold_pause_at = null,
      failures = 0, failing_since = null, rests_until = null, version = version + 1, changed_at = greatest(changed_at, ${at})
      ${places === undefined ? tx`` : tx`, places = ${tx.json(places)}`}
    where id = ${id}
  `;
}

/** Who is sent something, or may be. */
export async function selectReceivers(sql: Sql): Promise<string[]> {
  const rows = await sql<{ clientId: string }[]>`
    select client_id as "clientId" from endpoints where client_id is not null and (status = 'active' or paused_reason = 'asked')
  `;
  return rows.map(({ clientId }) => clientId);
}

export async function forbidStreams(sql: Sql, clientIds: readonly string[]): Promise<void> {
  await sql`
    update endpoints set status = 'paused', paused_reason = 'forbidden', untold_pause_at = now(), version = version + 1
    where client_id = any(${clientIds as string[]}) and (status = 'active' or paused_reason = 'asked')
  `;
}

/** False if somebody else was faster. */
export async function movePlaces(
  tx: TransactionSql,
  id: string,
  { from, to }: { from: StoredPlaces; to: StoredPlaces },
): Promise<boolean> {
  const rows = await tx`
    update endpoints set places = ${tx.json(to)} where id = ${id} and places = ${tx.json(from)} and status = 'active' returning id
  `;
  return rows.length > 0;
}
