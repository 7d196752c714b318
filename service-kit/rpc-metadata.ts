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

/** Reads a call's context. What is absent or malformed is replaced, never trusted. */
export function fromMetadata(metadata: Metadata, deadlineMs: number): CallContext {
  const traceparent = textOf(metadata, TRACEPARENT);
  const requestId = textOf(metadata, REQUEST_ID);
  const actor = actorOf(metadata);
  if (requestId === "" || requestId.length > 64 || !isTraceparent(traceparent)) {
    return { ...newCallContext({ traceparent }), deadlineMs, ...(actor && { actor }) };
  }
  return { requestId, traceparent, deadlineMs, ...(actor && { actor }) };
}

function actorOf(metadata: Metadata): Actor | undefined {
  const userId = textOf(metadata, ACTOR_USER);
  if (userId === "") return undefined;
  return { userId, role: textOf(metadata, ACTOR_ROLE), sessionId: textOf(metadata, ACTOR_SESSION) };
}

function textOf(metadata: Metadata, key: string): string {
  const value = metadata.get(key)[0];
  return typeof value === "string" ? value : "";
}
