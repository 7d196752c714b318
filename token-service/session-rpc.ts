import { decodeJwt } from "jose";
import { z } from "zod";
import type { RecordReading } from "#audit-client/stream/record-reading.ts";
import { traceIdOf } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { PERMISSION_NAME, ROLE_NAME } from "#kit/values/access-names.ts";
import { AUDIENCE_FORM, isAudience } from "#kit/values/audience.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Session, SessionServiceServer } from "#proto/gatehouse/token/v1/session_service.ts";
import { acrOf, parseAcr } from "#token-client/assurance.ts";
import { slotOfSession } from "#token-client/session-slot.ts";
import { decode } from "./decode-request.ts";
import type { EventCause } from "./events/security-event-store.ts";
import type { SessionPart } from "./parts/open-part.ts";
import type { Parts } from "./parts/parts.ts";
import { provenField } from "./rows/confirmation.ts";
import { listLiveSessions, type SessionRow } from "./rows/session-store.ts";
import { slotOfUser } from "./rows/user-slot.ts";
import { type IssueSessionDeps, issueSession } from "./sessions/issue-session.ts";
import { proveDevice } from "./sessions/prove-device.ts";
import { proveRefreshToken } from "./sessions/prove-refresh-token.ts";
import { type RaiseSessionDeps, raiseSession } from "./sessions/raise-session.ts";
import { type RefreshSessionDeps, refreshSession } from "./sessions/refresh-session.ts";
import {
  type RevokeAllSessionsDeps,
  revokeAllSessions,
  type SweepPosition,
} from "./sessions/revoke-all-sessions.ts";
import {
  type RevokeSessionDeps,
  revokeClientTokens,
  revokeSession,
  revokeUserSessions,
} from "./sessions/revoke-session.ts";
import { type ExchangeTokenDeps, exchangeToken } from "./tokens/exchange-token.ts";
import { type IssueClientTokenDeps, issueClientToken } from "./tokens/issue-client-token.ts";

const managers = ["gateway", "identity-service", "operator"] as const;

export const sessionCallers: Callers<SessionServiceServer> = {
  issueSession: ["identity-service"],
  raiseSession: ["identity-service"],
  refreshSession: ["gateway"],
  proveRefreshToken: ["gateway"],
  proveDevice: ["gateway"],
  revokeSession: managers,
  // Operators use identity-service, which records it.
  revokeUserSessions: ["gateway", "identity-service"],
  revokeAllSessions: ["operator"],
  listSessions: managers,
  issueClientToken: ["identity-service"],
  // The gateway revokes a client's own token (RFC 7009).
  revokeClientTokens: ["gateway", "identity-service"],
  // It checks the proof of a bound token.
  exchangeToken: ["gateway"],
};

/** Locks and comparisons use the text. */
const uuid = z.uuid().toLowerCase();
const reason = z.string().regex(/^[a-z][a-z_]{0,31}$/);
const methods = z.array(z.string().min(1).max(32)).min(1).max(8);
const level = z.string().transform((text, context) => {
  const known = parseAcr(text);
  if (known === undefined) context.addIssue("must be a level of assurance");
  return known ?? z.NEVER;
});
/** Ended by a login in the same browser. */
const REPLACED = "replaced";
const MAX_TTL_S = 31_536_000;
/** 0: as the service is set. */
const orDefault = (limit: z.ZodInt) => z.union([z.literal(0).transform(() => undefined), limit]);
const limits = z.object({
  idleS: orDefault(z.int().min(60).max(MAX_TTL_S)),
  absoluteS: orDefault(z.int().min(60).max(MAX_TTL_S)),
  atMost: orDefault(z.int().min(1).max(20)),
});
const newSession = z
  .object({
    confirmation: provenField,
    userId: uuid,
    role: z.string().regex(ROLE_NAME),
    amr: methods,
    acr: level,
    authTime: z.date(),
    limits: limits.optional(),
  })
  .transform(({ confirmation: proven, ...session }) => ({ ...session, proven }));
const newProof = z.object({ sessionId: uuid, userId: uuid, acr: level, amr: methods });

const provenClient = z
  .object({
    confirmation: provenField,
    clientId: uuid,
    credentialId: uuid,
    scopes: z.array(z.string().regex(PERMISSION_NAME)).min(1).max(100),
    provenAt: z.date(),
  })
  .transform(({ confirmation: proven, ...client }) => ({ ...client, proven }));
const provenKeys = z
  .object({ confirmation: provenField })
  .transform(({ confirmation: proven }) => ({ proven }));
const exchange = z.object({
  token: z.string().min(1),
  audience: z.string().refine(isAudience, AUDIENCE_FORM),
});
const revokedIds = z.object({ ids: z.array(uuid).min(1).max(20) });

const allSessions = z.object({
  issuedBefore: z.date().optional(),
  reason: z
    .string()
    .max(200)
    .refine((text) => text.trim() !== "" && !text.includes("\0"), "must say why"),
});

/** Start of the sweep in epoch milliseconds, the part, the changes of slots at its begin, and the last session. */
const cursorForm = /^(\d{1,15})\.(\d{1,2})\.(-1|\d{1,15})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

function decodeCursor(text: string): SweepPosition {
  const [, beganMs, part, changes, sessionId] = cursorForm.exec(text) ?? [];
  if (sessionId === undefined) throw new DomainError("validation_failed", "cursor is invalid");
  return { beganAt: new Date(Number(beganMs)), part: Number(part), changes: Number(changes), sessionId };
}

function encodeCursor({ beganAt, part, changes, sessionId }: SweepPosition): string {
  return `${beganAt.getTime()}.${part}.${changes}.${sessionId}`;
}

function causeOf(context: RpcContext): EventCause {
  return { person: context.person, requestId: context.requestId, traceId: traceIdOf(context) };
}

export type SessionRpcDeps = IssueSessionDeps &
  IssueClientTokenDeps &
  ExchangeTokenDeps &
  RaiseSessionDeps &
  RefreshSessionDeps &
  RevokeSessionDeps &
  RevokeAllSessionsDeps & { parts: Parts<SessionPart> };

/** Decides only which part is asked, which checks the text. 0 for a text that names no session. */
function slotNamedIn(text: string): number {
  try {
    // A device's challenge begins with the session's id.
    const { sid, jti = "" } = decodeJwt<{ sid?: unknown }>(text);
    return slotOfSession(typeof sid === "string" ? sid : (jti.split(".", 1)[0] ?? ""));
  } catch {
    return 0;
  }
}

export function createSessionRpc(
  deps: SessionRpcDeps,
  recordReading: RecordReading,
): Implementation<SessionServiceServer> {
  const at = <T>(slot: number, work: (own: SessionRpcDeps) => Promise<T>) =>
    deps.parts.at(slot, (part) => work({ ...deps, ...part }));
  return {
    async issueSession(request) {
      const checked = { ...decode(newSession, request), ...originOf(request) };
      return { tokens: await at(slotOfUser(checked.userId), (own) => issueSession(own, checked)) };
    },
    async refreshSession(request, context) {
      const { requestId } = context;
      const { deviceCookie } = request;
      const client = { ...originOf(request), ...decode(provenKeys, request), deviceCookie };
      const origin = { ...client, requestId, traceId: traceIdOf(context) };
      const { refreshToken } = request;
      const tokens = await at(slotNamedIn(refreshToken), (own) => refreshSession(own, refreshToken, origin));
      return { tokens };
    },
    async raiseSession(request) {
      const proof = decode(newProof, request);
      const { acr, ...access } = await at(slotOfSession(proof.sessionId), (own) => raiseSession(own, proof));
      return { ...access, acr: acrOf(acr) };
    },
    async proveRefreshToken(request) {
      const { refreshToken } = request;
      const { proven } = decode(provenKeys, request);
      return at(slotNamedIn(refreshToken), (own) => proveRefreshToken(own, refreshToken, proven));
    },
    async proveDevice(request, context) {
      const { sessionId, proof } = request;
      const slot = sessionId === "" ? slotNamedIn(proof) : slotOfSession(sessionId);
      const { requestId } = context;
      const origin = { ...originOf(request), requestId, traceId: traceIdOf(context) };
      return at(slot, (own) => proveDevice(own, request, origin));
    },
    async revokeSession(request, context) {
      const checked = decode(z.object({ sessionId: uuid, userId: uuid, reason }), request);
      // Other callers record their own requests. Of a replaced session, that is another user's.
      const isRecorded = context.caller === "operator" || checked.reason === REPLACED;
      const recordedAs = isRecorded ? causeOf(context) : undefined;
      const end = { ...checked, ...(recordedAs && { recordedAs }) };
      return { sequence: await at(slotOfSession(end.sessionId), (own) => revokeSession(own, end)) };
    },
    async revokeUserSessions(request) {
      const checked = decode(z.object({ userId: uuid, reason, begunBefore: z.date().optional() }), request);
      const kept =
        request.exceptSessionId === "" ? {} : { exceptSessionId: request.exceptSessionId.toLowerCase() };
      const end = { ...checked, ...kept };
      return at(slotOfUser(end.userId), (own) => revokeUserSessions(own, end));
    },
    async revokeAllSessions(request, context) {
      const checked = decode(allSessions, request);
      const cursor = request.cursor === "" ? undefined : decodeCursor(request.cursor);
      const { ended, next, bannedKeyIds } = await revokeAllSessions(
        deps,
        { ...checked, cursor },
        causeOf(context),
      );
      return { ended, bannedKeyIds, nextCursor: next === undefined ? "" : encodeCursor(next) };
    },
    async listSessions(request, context) {
      const { userId } = decode(z.object({ userId: uuid }), request);
      await recordReading(context, { action: "session.listed", resource: userId });
      const sessions = await at(slotOfUser(userId), ({ sql }) => listLiveSessions(sql, userId));
      return { sessions: sessions.map(toSessionMessage) };
    },
    issueClientToken: async (request) => issueClientToken(deps, decode(provenClient, request)),
    exchangeToken: async (request) => exchangeToken(deps, decode(exchange, request)),
    revokeClientTokens: async (request) => ({
      sequence: await revokeClientTokens(deps, decode(revokedIds, request).ids),
    }),
  };
}

const MAX_USER_AGENT_CHARACTERS = 512;
const MAX_IP_CHARACTERS = 45;

function originOf(request: { ip: string; userAgent: string }): { ip: string; userAgent: string } {
  // PostgreSQL text cannot contain NUL.
  return {
    ip: request.ip.slice(0, MAX_IP_CHARACTERS),
    userAgent: request.userAgent.replaceAll("\0", "").slice(0, MAX_USER_AGENT_CHARACTERS).toWellFormed(),
  };
}

function toSessionMessage(session: SessionRow): Session {
  const { id, createdAt, lastUsedAt, idleEnd, ip, userAgent, amr } = session;
  return { id, createdAt, lastUsedAt, expiresAt: idleEnd, ip, userAgent, amr };
}
