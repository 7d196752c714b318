import { Metadata } from "@grpc/grpc-js";
import { type Actor, type CallContext, isTraceparent, newCallContext } from "./call-context.ts";

const REQUEST_ID = "x-request-id";
const TRACEPARENT = "traceparent";
const ACTOR_USER = "x-actor-user-id";
const ACTOR_ROLE = "x-actor-role";
const ACTOR_SESSION = "x-actor-session-id";

/** Puts a call's context on the wire. The deadline travels as `grpc-timeout`. */
export function toMetadata(context: CallContext): Metadata {
  const metadata = new Metadata();
  metadata.set(REQUEST_ID, context.requestId);
  metadata.set(TRACEPARENT, context.traceparent);
  if (context.actor !== undefined) {
    metadata.set(ACTOR_USER, context.actor.userId);
    metadata.set(ACTOR_ROLE, context.actor.role);
    metadata.set(ACTOR_SESSION, context.actor.sessionId);
  }
  return metadata;
}

/** A call's metadata as plain values: one look at it instead of one a key. */
export type MetadataValues = ReturnType<Metadata["getMap"]>;

/**
 * Reads a call's context. What is absent or malformed is replaced, never trusted.
 *
 * @param believesActor whether the peer may say who the call is made for.
 */
export function fromMetadata(
  values: MetadataValues,
  deadlineMs: number,
  believesActor: boolean,
): CallContext {
  const traceparent = textOf(values, TRACEPARENT);
  const requestId = textOf(values, REQUEST_ID);
  const actor = believesActor ? actorOf(values) : undefined;
  if (requestId === "" || requestId.length > 64 || !isTraceparent(traceparent)) {
    return { ...newCallContext({ traceparent }), deadlineMs, ...(actor && { actor }) };
  }
  return actor === undefined
    ? { requestId, traceparent, deadlineMs }
    : { requestId, traceparent, deadlineMs, actor };
}

function actorOf(values: MetadataValues): Actor | undefined {
  const userId = textOf(values, ACTOR_USER);
  if (userId === "") return undefined;
  return { userId, role: textOf(values, ACTOR_ROLE), sessionId: textOf(values, ACTOR_SESSION) };
}

function textOf(values: MetadataValues, key: string): string {
  const value = values[key];
  return typeof value === "string" ? value : "";
}
