import { setTimeout as sleep } from "node:timers/promises";
import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import type { SignSignals } from "../delivery/attempt.ts";
import {
  countWaiting,
  type DeliveryWithBody,
  deleteOldDeliveries,
  deleteWaiting,
  newDelivery,
  replaceWaiting,
  selectWaiting,
  settleWaiting,
  upsertDeliveries,
} from "../delivery/delivery-store.ts";
import { encryptSecret, secretOfHeader } from "../endpoints/endpoint.ts";
import {
  type CourierEndpoint,
  deleteEndpoint,
  insertEndpoint,
  makeWaitingDue,
} from "../endpoints/endpoint-store.ts";
import {
  findStream,
  forbidStreams,
  movePlaces,
  type StreamStatus,
  selectReceivers,
  updateStream,
  updateStreamStatus,
} from "../endpoints/stream-store.ts";
import type { Places, Read } from "../stream/event-source.ts";
import {
  SIGNAL_TYPES,
  STREAM_UPDATED,
  signalAboutStream,
  signalsIn,
  VERIFICATION,
} from "../stream/signal.ts";
import { CONTROL, isUsable, type ManageDeps } from "./manage-endpoints.ts";

export interface StreamDeps extends ManageDeps {
  sign: SignSignals;
  /** By stream, the poll that waits at this replica. A call has it look at once. */
  waitingPolls: Map<string, () => void>;
}

export interface StreamDelivery {
  /** Empty: the receiver polls. */
  pushUrl: string;
  /** Undefined: none, or in a change that keeps the address the former one. */
  authorizationHeader?: string | undefined;
}

export interface WantedStream {
  delivery: StreamDelivery;
  eventsRequested: readonly string[];
  description: string;
}

/** A stream of a client. */
export interface StreamName {
  clientId: string;
  streamId: string;
}

const MAX_STREAMS = 100;
/** Of clients whose right is asked for at once: identity-service refuses more. */
const MAX_ASKED = 100;
const MAX_TYPES = 50;
const MAX_TYPE = 256;
const MAX_DESCRIPTION = 100;
const MAX_STATE = 1_024;
const MAX_EVENTS = 100;
/** What a receiver has not acknowledged. Further events wait in the log. */
const MAX_WAITING = 1_000;
/** Of those that are done. */
const KEPT_DELIVERIES = 1_000;
const LONG_POLL_MS = 3_000;
const DEFAULT_NAME = "Shared signals";
const HEADER = /^[\x20-\x7e]{0,2048}$/;
const POLLED: StreamDelivery = { pushUrl: "" };

/** @param name without an id: whichever the client has. @throws {DomainError} `not_found`. */
export async function getStream(
  { sql }: StreamDeps,
  { clientId, streamId }: StreamName,
): Promise<CourierEndpoint> {
  const stream = await findStream(sql, clientId);
  if (stream === undefined || (streamId !== "" && streamId !== stream.id)) throw new DomainError("not_found");
  return stream;
}

/** @throws {DomainError} `not_found`. */
async function namedStream(deps: StreamDeps, name: StreamName): Promise<CourierEndpoint> {
  if (name.streamId === "") throw new DomainError("not_found");
  return getStream(deps, name);
}

/** It is told what happens from now on. @throws {DomainError} `validation_failed`, `conflict`, `service_unavailable`. */
export async function createStream(
  deps: StreamDeps,
  clientId: string,
  wanted: Partial<WantedStream>,
): Promise<CourierEndpoint> {
  if (!isUuid(clientId)) throw invalidField("clientId", "invalid_format", "must be a UUID");
  if (!deps.events.isKnown) throw new DomainError("service_unavailable");
  const { delivery = POLLED } = wanted;
  const id = uuidv7();
  const at = deps.now();
  const row = { ...checked(deps, { delivery, ...wanted }), secret: encryptedHeader(deps, id, delivery) };
  const stored = {
    ...row,
    id,
    clientId,
    ownerId: null,
    isTemporary: false,
    places: deps.events.tip,
    createdAt: at,
  };
  if ((await insertEndpoint(deps.sql, stored, MAX_STREAMS)) === undefined)
    throw new DomainError("conflict", "The client has a stream already, or there are too many");
  return getStream(deps, { clientId, streamId: id });
}

/** @param replaces what is absent gets its default value. @throws {DomainError} `not_found`, `validation_failed`. */
export async function changeStream(
  deps: StreamDeps,
  name: StreamName,
  { replaces, ...change }: Partial<WantedStream> & { replaces: boolean },
): Promise<CourierEndpoint> {
  const stream = await namedStream(deps, name);
  const kept = { delivery: { pushUrl: stream.url }, eventsRequested: stream.types, description: stream.name };
  const wanted: Partial<WantedStream> & Pick<WantedStream, "delivery"> = {
    ...(replaces ? { delivery: POLLED } : kept),
    ...change,
  };
  const { id, secret: former } = stream;
  // A header that was given for one address is sent to no other.
  const isKept = !replaces && wanted.delivery.pushUrl === stream.url;
  const isNew = !isKept || wanted.delivery.authorizationHeader !== undefined;
  const secret = isNew ? encryptedHeader(deps, id, wanted.delivery) : former;
  await updateStream(deps.sql, id, { ...checked(deps, wanted), secret, at: deps.now() });
  return getStream(deps, name);
}

function checked({ networks }: StreamDeps, wanted: Partial<WantedStream> & Pick<WantedStream, "delivery">) {
  const { delivery, eventsRequested = SIGNAL_TYPES, description = "" } = wanted;
  const { pushUrl, authorizationHeader = "" } = delivery;
  if (pushUrl !== "" && !isUsable(pushUrl, networks))
    throw invalidField(
      "delivery.endpoint_url",
      "invalid_format",
      "must be https, of a host that may be called",
    );
  if (!HEADER.test(authorizationHeader))
    throw invalidField(
      "delivery.authorization_header",
      "invalid_format",
      "must be visible ASCII, at most 2,048",
    );
  const isTypes =
    eventsRequested.length <= MAX_TYPES &&
    eventsRequested.every((type) => type.length <= MAX_TYPE && !CONTROL.test(type));
  if (eventsRequested.length === 0 || !isTypes)
    throw invalidField("events_requested", "invalid_format", `must be 1 to ${MAX_TYPES} URIs`);
  if (description.length > MAX_DESCRIPTION)
    throw invalidField("description", "too_long", `must have at most ${MAX_DESCRIPTION} characters`);
  if (CONTROL.test(description))
    throw invalidField("description", "invalid_format", "must not contain control characters");
  return {
    kind: pushUrl === "" ? "poll" : "push",
    url: pushUrl,
    types: [...new Set(eventsRequested)] as string[],
    name: description || DEFAULT_NAME,
  } as const;
}

function encryptedHeader(
  { keys }: StreamDeps,
  id: string,
  { authorizationHeader = "" }: StreamDelivery,
): Buffer {
  return encryptSecret(keys, secretOfHeader(authorizationHeader), id);
}

/** @throws {DomainError} `not_found`. */
export async function deleteStream(deps: StreamDeps, name: StreamName): Promise<void> {
  const { id } = await namedStream(deps, name);
  await deleteEndpoint(deps.sql, id);
}

/** What happens while it is disabled is not told. @param reason null: it goes on. @throws {DomainError} `not_found`. */
export async function setStreamStatus(
  deps: StreamDeps,
  name: StreamName,
  reason: StreamStatus["pausedReason"],
): Promise<CourierEndpoint> {
  const { id, pausedReason } = await namedStream(deps, name);
  const isLost = reason === "disabled" || pausedReason === "disabled";
  // Without a place it would be told everything that ever happened.
  if (isLost && !deps.events.isKnown) throw new DomainError("service_unavailable");
  await transaction(deps.sql, async (tx) => {
    // The receiver need not be told of an earlier change any more.
    await deleteWaiting(tx, { endpointId: id, type: isLost ? undefined : STREAM_UPDATED });
    const places = isLost ? { ...deps.events.tip } : undefined;
    await updateStreamStatus(tx, id, { pausedReason: reason, places, at: deps.now() });
    if (reason === null) await makeWaitingDue(tx, id);
  });
  deps.waitingPolls.get(id)?.();
  return getStream(deps, name);
}

/** Sends the event soon (OpenID Shared Signals Framework 1.0, section 8.1.4). @throws {DomainError} `not_found`, `validation_failed`. */
export async function verifyStream(deps: StreamDeps, name: StreamName, state: string): Promise<void> {
  if (state.length > MAX_STATE)
    throw invalidField("state", "too_long", `must have at most ${MAX_STATE} characters`);
  const { id } = await namedStream(deps, name);
  const signal = { type: VERIFICATION, event: state === "" ? {} : { state } };
  // Not a change of the stream, which would end what its courier has begun. The courier looks again by itself.
  await transaction(deps.sql, (tx) => replaceWaiting(tx, id, signalAboutStream(id, signal, deps.now())));
  deps.waitingPolls.get(id)?.();
}

/** A client that was deleted, disabled or lost the permission is told nothing more. The caller repeats it. */
export async function pauseForbiddenStreams({
  sql,
  filterReceivers,
}: Pick<StreamDeps, "sql" | "filterReceivers">): Promise<void> {
  const receivers = await selectReceivers(sql);
  // There may be more than `MAX_STREAMS`: a stream that was forbidden, and is made active again, is not counted against it.
  for (let from = 0; from < receivers.length; from += MAX_ASKED) {
    const clientIds = receivers.slice(from, from + MAX_ASKED);
    const allowed = new Set(await filterReceivers(clientIds));
    const lost = clientIds.filter((id) => !allowed.has(id));
    if (lost.length > 0) await forbidStreams(sql, lost);
  }
}

export interface Poll {
  maxEvents: number;
  returnImmediately: boolean;
  acknowledged: readonly string[];
  refused: readonly string[];
}

/**
 * RFC 8936. What is not acknowledged comes again. One poll of a stream waits at a replica; another one is answered at once.
 * @throws {DomainError} `not_found`, `validation_failed`, `service_unavailable`.
 */
export async function pollStream(deps: StreamDeps, name: StreamName, poll: Poll) {
  const { id } = await settle(deps, name, poll);
  const { waitingPolls } = deps;
  const waits = !poll.returnImmediately && poll.maxEvents > 0 && !waitingPolls.has(id);
  const untilMs = performance.now() + (waits ? LONG_POLL_MS : 0);
  const limit = Math.min(poll.maxEvents, MAX_EVENTS);
  try {
    for (;;) {
      const woken = Promise.withResolvers<void>();
      if (waits) waitingPolls.set(id, woken.resolve);
      const stream = await polledStream(deps, name);
      const { next, isAtEnd } = await readOn(deps, stream);
      const waiting = await selectSendable(deps, stream, limit);
      const leftMs = untilMs - performance.now();
      if (waiting.length > 0 || leftMs <= 0) {
        const sent = waiting.slice(0, limit).map(({ eventId, body }) => ({ id: eventId, body: body ?? "" }));
        const tokens = sent.length === 0 ? [] : await deps.sign(name.clientId, sent);
        return {
          tokens: sent.map((signal, index) => ({ jti: signal.id, token: tokens[index] ?? "" })),
          moreAvailable: waiting.length > limit || !isAtEnd,
        };
      }
      const ended = Promise.race([woken.promise, sleep(leftMs, undefined, { ref: false })]);
      if (isAtEnd) await untilWanted(deps, { ...stream, places: next }, ended);
    }
  } finally {
    if (waits) waitingPolls.delete(id);
  }
}

/** @throws {DomainError} `not_found`. */
async function polledStream(deps: StreamDeps, name: StreamName): Promise<CourierEndpoint> {
  const stream = await namedStream(deps, name);
  if (stream.kind !== "poll") throw new DomainError("not_found");
  return stream;
}

/** @throws {DomainError} `not_found`, `validation_failed`. */
async function settle(
  deps: StreamDeps,
  name: StreamName,
  { acknowledged, refused }: Poll,
): Promise<CourierEndpoint> {
  for (const [field, ids] of Object.entries({ ack: acknowledged, setErrs: refused }))
    if (ids.length > MAX_WAITING || !ids.every(isUuid))
      throw invalidField(field, "invalid_format", `must be at most ${MAX_WAITING} values of jti`);
  const stream = await polledStream(deps, name);
  const { id } = stream;
  if (acknowledged.length > 0) await settleWaiting(deps.sql, id, { eventIds: acknowledged, problem: "" });
  if (refused.length > 0) await settleWaiting(deps.sql, id, { eventIds: refused, problem: "refused" });
  if (acknowledged.length + refused.length > 0) await deleteOldDeliveries(deps.sql, id, KEPT_DELIVERIES);
  return stream;
}

/** One more than the limit if there are more. */
async function selectSendable(
  { sql }: StreamDeps,
  { id, status, pausedReason }: CourierEndpoint,
  limit: number,
): Promise<DeliveryWithBody[]> {
  const isActive = status === "active";
  if (limit === 0 || (!isActive && pausedReason !== "asked")) return [];
  return selectWaiting(sql, { endpointId: id, type: isActive ? undefined : STREAM_UPDATED }, limit + 1);
}

/** Resolves when the log may have something after the stream's places, and at the end. Asks no database: many polls wait. */
async function untilWanted(
  { events }: StreamDeps,
  { types, places, status }: CourierEndpoint,
  ended: Promise<unknown>,
): Promise<void> {
  if (status !== "active") return void (await ended);
  let isOver = false;
  const over = ended.then(() => {
    isOver = true;
  });
  for (let from: Places = places; !isOver; ) {
    const { grown } = events;
    const read = await signalsIn(events).after(from);
    if (!read.isAtEnd || read.events.some(({ type }) => types.includes(type))) return;
    from = read.next;
    await Promise.race([grown, over]);
  }
}

/** Moves signals from the log to what waits. @returns how far it has read, and whether the log has no more. */
async function readOn(
  deps: StreamDeps,
  { id, types, places, status }: CourierEndpoint,
): Promise<Pick<Read, "next" | "isAtEnd">> {
  const nothing = { next: places, isAtEnd: true };
  if (status !== "active") return nothing;
  if (((await countWaiting(deps.sql, [id])).get(id) ?? 0) >= MAX_WAITING) return nothing;
  const { events, next, isAtEnd } = await signalsIn(deps.events).after(places);
  const wanted = events.filter(({ type }) => types.includes(type));
  if (JSON.stringify(next) === JSON.stringify(places)) return { next, isAtEnd };
  await transaction(deps.sql, async (tx) => {
    const isFirst = await movePlaces(tx, id, { from: places, to: next });
    if (!isFirst || wanted.length === 0) return;
    await upsertDeliveries(
      tx,
      id,
      wanted.map((event) => newDelivery(event, deps.now())),
    );
  });
  return { next, isAtEnd };
}
