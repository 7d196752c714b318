import { validate as isUuid } from "uuid";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import { DomainError, type FieldProblem, invalidField } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { isAllowedUrl, type ReachableNetwork } from "#outbound-http/outbound-http.ts";
import { type AttemptResult, asWebhook, createSender } from "../delivery/attempt.ts";
import { countWaiting, type Delivery, replaceWaiting, selectDeliveries } from "../delivery/delivery-store.ts";
import {
  type Endpoint,
  encryptSecret,
  newSecret,
  renewEncryption,
  type SecretKeys,
  secretsInUse,
} from "../endpoints/endpoint.ts";
import {
  deleteEndpoint as deleteRow,
  type EndpointChange,
  findCourierEndpoint,
  findEndpoint,
  insertEndpoint,
  lockEndpoint,
  putBack,
  replaceEncrypted,
  replaceSecret,
  selectEndpoints,
  selectSecrets,
  updateEndpoint,
} from "../endpoints/endpoint-store.ts";
import { testEvent } from "../stream/event.ts";
import type { EventSource } from "../stream/event-source.ts";
import { STREAM_UPDATED, signalAboutStream } from "../stream/signal.ts";

export interface ManageDeps {
  sql: Sql;
  events: EventSource;
  keys: SecretKeys;
  networks: readonly ReachableNetwork[];
  /** @param clientIds at most 100. @returns those that are active clients with the permission. @throws {DomainError} `service_unavailable`. */
  filterReceivers(clientIds: readonly string[]): Promise<string[]>;
  /** Of events. */
  source: string;
  now: () => Date;
}

const STREAM_STATUSES = { active: "enabled", paused: "paused" } as const;
const MAX_ENDPOINTS = 100;
const MAX_LIMIT = 100;
const MAX_URL = 2_048;
const MAX_TYPES = 50;
const MAX_OVERLAP_H = 168;
const HOUR_MS = 3_600_000;
const NAME = /^(?!\s)\P{C}{1,100}(?<!\s)$/u;
/** A parser of URLs removes or escapes them; PostgreSQL refuses NUL. */
export const CONTROL = /\p{C}/u;
/** A type, or the beginning of types. */
const TYPE = /^gatehouse\.(?:[a-z0-9_.-]{1,128}|[a-z0-9_.-]{0,127}\*)$/;

/** With the number of deliveries that wait. */
export interface ShownEndpoint extends Endpoint {
  waiting: number;
}

async function shown(deps: ManageDeps, endpoint: Endpoint | undefined): Promise<ShownEndpoint> {
  if (endpoint === undefined) throw new DomainError("not_found");
  return { ...endpoint, waiting: (await countWaiting(deps.sql, [endpoint.id])).get(endpoint.id) ?? 0 };
}

const assertId = (id: string) => {
  if (!isUuid(id)) throw new DomainError("not_found");
};

/** Newest first. @throws {DomainError} `validation_failed`. */
export async function listEndpoints(deps: ManageDeps, { cursor, limit }: { cursor: string; limit: number }) {
  assertPage(cursor, limit);
  const found = await selectEndpoints(deps.sql, cursor || undefined, limit + 1);
  const page = found.slice(0, limit);
  const ids = page.map(({ id }) => id);
  const waiting = await countWaiting(deps.sql, ids);
  const endpoints = page.map((endpoint) => ({ ...endpoint, waiting: waiting.get(endpoint.id) ?? 0 }));
  return { endpoints, nextCursor: found.length > limit ? ids.at(-1) : undefined };
}

function assertPage(cursor: string, limit: number): void {
  if (cursor !== "" && !isUuid(cursor)) throw invalidField("cursor", "invalid_format", "is invalid");
  if (limit < 1 || limit > MAX_LIMIT)
    throw invalidField("limit", "out_of_range", `must be 1 to ${MAX_LIMIT}`);
}

/** @throws {DomainError} `not_found`. */
export async function getEndpoint(deps: ManageDeps, id: string): Promise<ShownEndpoint> {
  assertId(id);
  return shown(deps, await findEndpoint(deps.sql, id));
}

export interface WantedEndpoint {
  name: string;
  url: string;
  types: readonly string[];
  /** Empty: nobody is written to. */
  ownerId: string;
  isTemporary: boolean;
}

/**
 * It is sent what happens from now on.
 * @returns also the secret, which is shown this once. @throws {DomainError} `validation_failed`, `conflict`, `service_unavailable`.
 */
export async function createEndpoint(
  deps: ManageDeps,
  wanted: WantedEndpoint,
): Promise<{ endpoint: ShownEndpoint; secret: string }> {
  assertValid(deps, wanted);
  if (!deps.events.isKnown) throw new DomainError("service_unavailable");
  const { name, url, types, ownerId, isTemporary } = wanted;
  const id = uuidv7();
  const secret = newSecret();
  const row = {
    ...({ id, kind: "webhook", clientId: null } as const),
    name,
    url,
    types: [...types],
    ownerId: ownerId || null,
    isTemporary,
    createdAt: deps.now(),
  };
  const stored = { ...row, secret: encryptSecret(deps.keys, secret, id), places: deps.events.tip };
  const endpoint = await insertEndpoint(deps.sql, stored, MAX_ENDPOINTS);
  if (endpoint === undefined)
    throw new DomainError("conflict", `There are ${MAX_ENDPOINTS} webhooks already`);
  return { endpoint: await shown(deps, endpoint), secret };
}

/**
 * Members that are undefined stay as they are. If the status of a stream changes, its receiver is told so (OpenID Shared Signals
 * Framework 1.0, section 8.1.5).
 * @throws {DomainError} `not_found`, `validation_failed`, `conflict` for what only the receiver of a stream may change, or a stream
 *   that may not be sent anything, `service_unavailable`.
 */
export async function changeEndpoint(
  deps: ManageDeps,
  id: string,
  change: EndpointChange,
): Promise<ShownEndpoint> {
  const { status, ...ofWebhook } = change;
  if (Object.values(ofWebhook).some((value) => value !== undefined)) await assertWebhook(deps, id);
  assertId(id);
  assertValid(deps, change);
  if (status === "active") await assertMayReceive(deps, id);
  const at = deps.now();
  const changed = await transaction(deps.sql, async (tx) => {
    const before = await lockEndpoint(tx, id);
    // Asked under the lock: its receiver may have disabled it just now.
    if (status === "active" && before?.pausedReason === "disabled")
      throw new DomainError("conflict", "Its receiver has disabled the stream");
    const url = change.url === before?.url ? undefined : change.url;
    const after = await updateEndpoint(tx, id, { ...change, url }, at);
    if (after !== undefined && after.clientId !== null && after.status !== before?.status) {
      const event = { status: STREAM_STATUSES[after.status], reason: "by an administrator" };
      await replaceWaiting(tx, id, signalAboutStream(id, { type: STREAM_UPDATED, event }, at));
    }
    return after;
  });
  return shown(deps, changed);
}

/** A stream is made active only if its receiver may receive. @throws {DomainError} `conflict`, `service_unavailable`. */
async function assertMayReceive({ sql, filterReceivers }: ManageDeps, id: string): Promise<void> {
  const { clientId = null } = (await findEndpoint(sql, id)) ?? {};
  if (clientId === null) return;
  if ((await filterReceivers([clientId])).length === 0)
    throw new DomainError("conflict", "Its client may not receive signals");
}

/** A stream is its receiver's. @throws {DomainError} `not_found`, `conflict`. */
async function assertWebhook({ sql }: ManageDeps, id: string): Promise<void> {
  assertId(id);
  const endpoint = await findEndpoint(sql, id);
  if (endpoint === undefined) throw new DomainError("not_found");
  if (endpoint.kind !== "webhook")
    throw new DomainError("conflict", "It is a stream of Shared Signals, which its receiver changes");
}

function assertValid({ networks }: ManageDeps, { name, url, types, ownerId }: EndpointChange): void {
  const problem = (field: string, message: string): FieldProblem => ({
    field,
    code: "invalid_format",
    message,
  });
  const isName = name === undefined || NAME.test(name);
  const isTypes =
    types === undefined ||
    (types.length >= 1 && types.length <= MAX_TYPES && types.every((type) => TYPE.test(type)));
  const fields = [
    ...(isName ? [] : [problem("name", "must be 1 to 100 characters, no control, no space at an end")]),
    ...(url === undefined || isUsable(url, networks)
      ? []
      : [problem("url", "must be https, without a user, of a host that may be called")]),
    ...(isTypes
      ? []
      : [
          problem(
            "types",
            `must be 1 to ${MAX_TYPES} types like gatehouse.user.password_changed.v1 or gatehouse.user.*`,
          ),
        ]),
    ...(ownerId === undefined || ownerId === "" || isUuid(ownerId)
      ? []
      : [problem("ownerId", "must be a UUID")]),
  ];
  if (fields.length > 0) throw new DomainError("validation_failed", undefined, { fields });
}

export function isUsable(text: string, networks: readonly ReachableNetwork[]): boolean {
  if (text.length > MAX_URL || CONTROL.test(text) || !isAllowedUrl(text, networks)) return false;
  const { username, password, hash } = new URL(text);
  return username === "" && password === "" && hash === "";
}

/** @throws {DomainError} `not_found`. */
export async function deleteEndpoint(deps: ManageDeps, id: string): Promise<void> {
  assertId(id);
  if (!(await deleteRow(deps.sql, id))) throw new DomainError("not_found");
}

/**
 * @param overlapHours how long the former secret signs too. With 0 all earlier ones end at once.
 * @throws {DomainError} `not_found`, `validation_failed`, `conflict` while a former secret still signs: it would end before its time, and a
 *   receiver that has no newer one would refuse everything.
 */
export async function rotateSecret(
  deps: ManageDeps,
  id: string,
  overlapHours: number,
): Promise<{ endpoint: ShownEndpoint; secret: string }> {
  await assertWebhook(deps, id);
  if (overlapHours > MAX_OVERLAP_H)
    throw invalidField("overlapHours", "out_of_range", `must be 0 to ${MAX_OVERLAP_H}`);
  const at = deps.now();
  const secret = newSecret();
  const formerUntil = overlapHours === 0 ? null : new Date(at.getTime() + overlapHours * HOUR_MS);
  const change = { secret: encryptSecret(deps.keys, secret, id), formerUntil, at };
  const endpoint = await transaction(deps.sql, async (tx) => {
    const formerEnd = (await lockEndpoint(tx, id))?.formerSecretUntil;
    if (formerUntil !== null && formerEnd && formerEnd > at)
      throw new DomainError("conflict", `A former secret signs until ${formerEnd.toISOString()}`);
    return replaceSecret(tx, id, change);
  });
  return { endpoint: await shown(deps, endpoint), secret };
}

/** After a change of the key: the former one is not needed any more. To be repeated. @throws if a key is missing, after the others. */
export async function renewEncryptions({ sql, keys }: Pick<ManageDeps, "sql" | "keys">): Promise<void> {
  let failure: unknown;
  for (const before of await selectSecrets(sql)) {
    const renew = (encrypted: Buffer) => renewEncryption(keys, before.id, encrypted);
    try {
      const { secret, formerSecret } = before;
      const after = {
        id: before.id,
        secret: renew(secret),
        formerSecret: formerSecret && renew(formerSecret),
      };
      if (after.secret !== secret || after.formerSecret !== formerSecret)
        await replaceEncrypted(sql, before, after);
    } catch (error) {
      failure ??= error;
    }
  }
  if (failure !== undefined) throw failure;
}

/** Once, past the queue, whether it is paused or not. @throws {DomainError} `not_found`. */
export async function sendTest(deps: ManageDeps, id: string): Promise<AttemptResult> {
  await assertWebhook(deps, id);
  const endpoint = await findCourierEndpoint(deps.sql, id);
  if (endpoint === undefined) throw new DomainError("not_found");
  const secrets = secretsInUse(deps.keys, id, endpoint, deps.now());
  const sender = createSender({ url: endpoint.url, networks: deps.networks }, asWebhook(secrets));
  try {
    return await sender.send(testEvent({ id: uuidv7(), source: deps.source, at: deps.now() }));
  } finally {
    await sender.close();
  }
}

/** @param from the first event that is sent again, in each named log. @throws {DomainError} `not_found`, `validation_failed`. */
export async function replayEvents(
  deps: ManageDeps,
  id: string,
  from: readonly { log: number; sequence: number }[],
): Promise<ShownEndpoint> {
  assertId(id);
  const { tip } = deps.events;
  const isThere = from.every(({ log, sequence }) => sequence >= 1 && sequence <= (tip[log] ?? -1) + 1);
  if (from.length === 0 || !isThere)
    throw invalidField("from", "out_of_range", "must name places that the logs have");
  const places = Object.fromEntries(from.map(({ log, sequence }) => [log, sequence - 1]));
  return shown(deps, await putBack(deps.sql, id, places, deps.now()));
}

/** The newest event first. @throws {DomainError} `not_found`, `validation_failed`. */
export async function listDeliveries(
  deps: ManageDeps,
  id: string,
  { cursor, limit }: { cursor: string; limit: number },
): Promise<{ deliveries: Delivery[]; nextCursor: string | undefined }> {
  assertPage(cursor, limit);
  await getEndpoint(deps, id);
  const found = await selectDeliveries(deps.sql, id, { before: cursor || undefined, limit: limit + 1 });
  const deliveries = found.slice(0, limit);
  return { deliveries, nextCursor: found.length > limit ? deliveries.at(-1)?.eventId : undefined };
}
