import { Metadata } from "@grpc/grpc-js";
import { DomainError } from "../values/errors.ts";
import {
  type Actor,
  type CallContext,
  type Confirmation,
  isTraceparent,
  newCallContext,
} from "./call-context.ts";

const REQUEST_ID = "x-request-id";
const TRACEPARENT = "traceparent";
const ACTOR_USER = "x-actor-user-id";
const ACTOR_ROLE = "x-actor-role";
const ACTOR_SESSION = "x-actor-session-id";
/** Of clients: permissions, separated by spaces. */
const ACTOR_SCOPES = "x-actor-scopes";
const PROVEN_JKT = "x-proven-jkt";
const PROVEN_X5T = "x-proven-x5t-s256";
const PRINTABLE = /^[ -~]*$/;
const CALLER_KEYS = [ACTOR_USER, ACTOR_ROLE, ACTOR_SESSION, ACTOR_SCOPES, PROVEN_JKT, PROVEN_X5T];

/** The deadline travels separately, as `grpc-timeout`. */
export function toMetadata(context: CallContext): Metadata {
  return metadataOf(toHeaders(context));
}

export function metadataOf(headers: Record<string, string>): Metadata {
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  return metadata;
}

/** @throws if a value is not of printable ASCII characters: NUL would begin another header. */
export function toHeaders({ requestId, traceparent, actor, proven }: CallContext): Record<string, string> {
  const headers: Record<string, string> = { [REQUEST_ID]: requestId, [TRACEPARENT]: traceparent };
  if (actor !== undefined) {
    headers[ACTOR_USER] = actor.userId;
    headers[ACTOR_ROLE] = actor.role;
    headers[ACTOR_SESSION] = actor.sessionId;
    if (actor.scopes !== undefined) headers[ACTOR_SCOPES] = actor.scopes.join(" ");
  }
  const { jkt = "", x5tS256 = "" } = proven ?? {};
  if (jkt !== "") headers[PROVEN_JKT] = jkt;
  if (x5tS256 !== "") headers[PROVEN_X5T] = x5tS256;
  for (const key in headers) {
    if (!PRINTABLE.test(headers[key] ?? "")) throw new Error(`${key} contains illegal characters`);
  }
  return headers;
}

export type MetadataValues = ReturnType<Metadata["toJSON"]>;

/** Replaces malformed values. @throws {DomainError} for two actors. */
export function fromMetadata(
  values: MetadataValues,
  deadlineMs: number,
  believesCaller: boolean,
): CallContext {
  const traceparent = textOf(values, TRACEPARENT);
  const requestId = textOf(values, REQUEST_ID);
  for (const key of CALLER_KEYS) assertSingle(values[key]);
  const actor = believesCaller ? actorOf(values) : undefined;
  const proven = believesCaller ? provenIn(values) : undefined;
  const client = { ...(actor && { actor }), ...(proven && { proven }) };
  if (requestId === "" || requestId.length > 64 || !isTraceparent(traceparent)) {
    return { ...newCallContext({ traceparent }), deadlineMs, ...client };
  }
  return { requestId, traceparent, deadlineMs, ...client };
}

function provenIn(values: MetadataValues): Confirmation | undefined {
  const [jkt, x5tS256] = [textOf(values, PROVEN_JKT), textOf(values, PROVEN_X5T)];
  return jkt === "" && x5tS256 === "" ? undefined : { jkt, x5tS256 };
}

/** Node joins repeated keys with a comma, which no id or role contains. */
function assertSingle(values: MetadataValues[string] | undefined): void {
  if (values === undefined) return;
  if (values.length > 1 || String(values[0]).includes(",")) throw new DomainError("bad_request");
}

function actorOf(values: MetadataValues): Actor | undefined {
  const userId = textOf(values, ACTOR_USER);
  if (userId === "") return undefined;
  const scopes = values[ACTOR_SCOPES] && textOf(values, ACTOR_SCOPES).split(" ").filter(Boolean);
  return {
    userId,
    role: textOf(values, ACTOR_ROLE),
    sessionId: textOf(values, ACTOR_SESSION),
    ...(scopes && { scopes }),
  };
}

function textOf(values: MetadataValues, key: string): string {
  const value = values[key]?.[0];
  return typeof value === "string" ? value : "";
}
