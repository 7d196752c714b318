import type { ServerDuplexStream, ServerUnaryCall, ServerWritableStream } from "@grpc/grpc-js";
import { DomainError } from "../values/errors.ts";
import type { CallContext } from "./call-context.ts";
import { hasGone, sessionOf } from "./grpc-js-internals.ts";
import type { RefusedPeople } from "./refused-people.ts";
import { fromMetadata, type MetadataValues } from "./rpc-metadata.ts";
import { type Peer, peerOf } from "./rpc-tls.ts";

export interface RpcContext extends CallContext {
  /** From the certificate: a service, `operator` or `auditor`. */
  caller: string;
}

export interface AdmissionOptions {
  /** Their calls are refused, and their streams end with their next answer. */
  refusedPeople?: RefusedPeople;
  /** Before each call. @throws {DomainError} `service_unavailable` while the clock is known to be wrong. */
  assertClock?: (() => void) | undefined;
}

export interface AdmissionDeps extends AdmissionOptions {
  /** The wall clock. */
  nowMs: () => number;
}

export interface CallersOfMethod {
  callers: readonly string[];
  /** The variable that adds to them. */
  setting: string | undefined;
}

export type StreamCall = ServerWritableStream<unknown, unknown> | ServerDuplexStream<unknown, unknown>;
type AnyCall = ServerUnaryCall<unknown, unknown> | StreamCall;

const MAX_METADATA_BYTES = 8 * 1024;
const MAX_UNARY_MS = 10_000;
/** Only the gateway authenticates users. */
const AUTHENTICATING_CALLER = "gateway";

/** @throws {DomainError} why the call is not served. */
export function admit(
  deps: AdmissionDeps,
  call: AnyCall,
  { callers, setting, needsDeadline }: CallersOfMethod & { needsDeadline: boolean },
): RpcContext {
  if (hasGone(call)) throw new DomainError("service_unavailable", "The caller has disconnected");
  const peer = peerOfCall(call);
  if (peer === undefined || !callers.includes(peer.name)) throw refusalOf(peer, setting);
  assertNotRefused(deps, peer.person);
  const values = call.metadata.toJSON();
  if (bytesOf(values) > MAX_METADATA_BYTES) throw new DomainError("headers_too_large");
  const now = deps.nowMs();
  const deadlineMs = Number(call.getDeadline());
  if (needsDeadline && !Number.isFinite(deadlineMs)) throw new DomainError("deadline_missing");
  if (deadlineMs <= now) throw new DomainError("service_unavailable", "The deadline has passed");
  deps.assertClock?.();
  const believesCaller = peer.name === AUTHENTICATING_CALLER;
  const context = fromMetadata(values, Math.min(deadlineMs, now + MAX_UNARY_MS), believesCaller);
  return { ...context, caller: peer.name, ...(peer.person !== undefined && { person: peer.person }) };
}

/** Clients of all languages show this message. */
function refusalOf(peer: Peer | undefined, setting: string | undefined): DomainError {
  if (peer === undefined)
    return new DomainError("caller_not_allowed", "The certificate needs one URI, spiffe://gatehouse/<name>");
  const isOfSetting = setting !== undefined && peer.person === undefined;
  const message = isOfSetting
    ? `${peer.name} may not call this: add its name to ${setting}, which is read at the start`
    : undefined;
  return new DomainError("caller_not_allowed", message);
}

/** For the log: a service, or `operator:ada`. */
export function callerOf(call: AnyCall): string | undefined {
  const peer = peerOfCall(call);
  return peer?.person ?? peer?.name;
}

/** @throws {DomainError} `caller_not_allowed` */
export function assertNotRefused({ refusedPeople }: AdmissionOptions, person: string | undefined): void {
  if (person !== undefined && refusedPeople?.has(person) === true)
    throw new DomainError("caller_not_allowed");
}

/** Decoding a certificate costs as much as the rest of a small call. */
const peerBySession = new WeakMap<object, Peer | undefined>();

/** The peer cannot change under TLS 1.3. */
function peerOfCall(call: AnyCall): Peer | undefined {
  const session = sessionOf(call);
  if (session !== undefined && peerBySession.has(session)) return peerBySession.get(session);
  const certificate = call.getAuthContext().sslPeerCertificate;
  const peer = certificate === undefined ? undefined : peerOf(certificate);
  if (session !== undefined) peerBySession.set(session, peer);
  return peer;
}

function bytesOf(values: MetadataValues): number {
  let bytes = 0;
  for (const key in values) {
    for (const value of values[key] ?? []) bytes += key.length + value.length;
  }
  return bytes;
}
