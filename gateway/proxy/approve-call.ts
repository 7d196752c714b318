import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import type { FastifyRequest } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import type { ApprovalDemand } from "#routes-file/routes-file.ts";
import type { Backends } from "../backends/backends.ts";
import { clientOf, principalOf } from "../edge/request/caller.ts";
import { noteApproval } from "../edge/request/request-state.ts";
import type { ProxyRoute, ProxyTarget } from "../routing/proxy-table.ts";
import {
  type ApprovedFields,
  needsApproval,
  readApprovedFields,
  transactionDigest,
  transactionText,
} from "./approved-transaction.ts";
import { shareOf } from "./forward.ts";
import { limitedBody } from "./limited-body.ts";
import { exchangeCallOf, type OpenExchanges } from "./open-exchanges.ts";

const MAX_BODY_BYTES = 64 * 1024;
const APPROVAL_HEADER = "gatehouse-approval";
const JSON_TYPE = /^application\/json(?: *; *charset="?utf-8"?)?$/i;

export interface ApprovalServices {
  identity: Pick<Backends["identity"], "askApproval" | "useApproval">;
}

/**
 * Meanwhile the call has its place among its user's and ends with its token, like one that is forwarded.
 * @throws {DomainError} `unsupported_media_type`, `payload_too_large`, `too_many_requests`; why the token ended.
 */
export async function readApprovedBody(
  request: FastifyRequest,
  payload: Readable,
  route: ProxyRoute,
  exchanges: OpenExchanges,
): Promise<Buffer> {
  if (!JSON_TYPE.test(request.headers["content-type"] ?? "")) throw new DomainError("unsupported_media_type");
  const reading = {
    call: exchangeCallOf(request),
    isWaiting: true,
    // The body fails when its client leaves.
    isGone: false,
    abandon: () => undefined,
    fail: (error: DomainError) => void body.destroy(error),
  };
  exchanges.enter(reading, shareOf(request, route));
  const body = limitedBody(payload, MAX_BODY_BYTES);
  try {
    return await buffer(body);
  } finally {
    exchanges.leave(reading);
  }
}

interface ApprovedCall {
  user: string;
  session: string;
  /** RFC 8785. */
  text: string;
  fields: ApprovedFields;
  demand: ApprovalDemand;
}

/**
 * Uses the call's approval, if it needs one.
 * @throws {DomainError} `approval_required` with a new approval, `approval_mismatch`, `approval_expired`, `approval_used`;
 * `user_required` for a client.
 */
export async function passApproval(
  request: FastifyRequest,
  { target, demand }: { target: ProxyTarget; demand: ApprovalDemand },
  services: ApprovalServices,
): Promise<void> {
  const fields = readApprovedFields(bodyOf(request), demand.fields);
  if (!needsApproval(demand, fields)) return;
  const { kind, userId: user, sessionId: session } = principalOf(request);
  if (kind === "client") throw new DomainError("user_required");
  const route = (request.raw.url ?? "").slice(target.version.length);
  const text = transactionText({ user, session, method: request.method, route }, fields);
  const call = { user, session, text, fields, demand };
  const token = request.headers[APPROVAL_HEADER];
  if (typeof token !== "string" || !(await isUsed(request, call, token, services))) {
    throw await askFor(request, call, services);
  }
}

/** False if the user has not given it yet, or below the level that is demanded now. */
async function isUsed(
  request: FastifyRequest,
  { user: userId, session: sessionId, text, demand: { acr } }: ApprovedCall,
  token: string,
  { identity }: ApprovalServices,
): Promise<boolean> {
  const digest = transactionDigest(text);
  const idempotencyHash = idempotencyHashOf(request);
  const use = { userId, sessionId, token, digest, acr, idempotencyHash, ...clientOf(request) };
  try {
    const { approvalId: id, method, isRepeated } = await identity.useApproval(use, request.state.call);
    noteApproval(request, { id, method, isRepeated, digest: digest.toString("hex") });
    return true;
  } catch (error) {
    if (error instanceof DomainError && error.code === "approval_required") return false;
    throw error;
  }
}

async function askFor(
  request: FastifyRequest,
  { user: userId, session: sessionId, text, fields, demand }: ApprovedCall,
  { identity }: ApprovalServices,
): Promise<DomainError> {
  const { acr, ttlSeconds: ttlS } = demand;
  const asked = { userId, sessionId, transaction: text, acr, ttlS, ...clientOf(request) };
  const answer = await identity.askApproval(asked, request.state.call);
  const { approvalId, token, expiresInS: expiresIn, methods, passkeyOptionsJson } = answer;
  const passkey = passkeyOptionsJson !== undefined && { passkey: JSON.parse(passkeyOptionsJson) };
  const approval = { id: approvalId, token, expiresIn, details: fields, methods, ...passkey };
  return new DomainError("approval_required", undefined, { details: { approval } });
}

function bodyOf({ body }: FastifyRequest): Buffer {
  if (!Buffer.isBuffer(body)) throw new DomainError("bad_request", "The body must be JSON.");
  return body;
}

function idempotencyHashOf({ headers }: FastifyRequest): Buffer {
  const key = headers["idempotency-key"];
  if (typeof key !== "string" || key === "") return Buffer.alloc(0);
  return createHash("sha256").update(key).digest();
}
