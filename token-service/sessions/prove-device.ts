import type { JWK } from "jose";
import { z } from "zod";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { insertSecurityEvent } from "../events/security-event-store.ts";
import { countDeviceProof, readSession, type SessionRow } from "../rows/session-store.ts";
import {
  checkDeviceProof,
  DEVICE_COOKIE_LIFE_S,
  deviceChallenge,
  deviceCookie,
  isDeviceChallenge,
} from "../tokens/device-proof.ts";
import type { RefreshOrigin } from "./refresh-session.ts";

interface ProveDeviceDeps {
  sql: Sql;
  now: () => Date;
  /** Called after the commit. */
  onSecurityEvent: () => void;
}

type Origin = Pick<RefreshOrigin, "ip" | "userAgent" | "requestId" | "traceId">;

/** Without a cookie there is a challenge. */
interface DeviceAnswer {
  sessionId: string;
  cookie: string;
  expiresInS: number;
  challenge: string;
}

const uuid = z.uuid().toLowerCase();

/**
 * docs/decisions/device-bound-sessions.md. @param request.sessionId empty: the proof binds the session that its challenge names.
 * @throws {DomainError} `not_found`, `refresh_token_invalid`, `conflict`.
 */
export async function proveDevice(
  deps: ProveDeviceDeps,
  { sessionId, proof }: { sessionId: string; proof: string },
  origin: Origin,
): Promise<DeviceAnswer> {
  if (sessionId === "") return bindDevice(deps, proof, origin);
  const session = await liveSession(deps, sessionId);
  if (session.deviceKey === null) throw new DomainError("not_found");
  if (proof === "") return challengeTo(session, deps.now());
  const signed = await checkDeviceProof(proof, session.deviceKey);
  if (signed === undefined) throw await recordRefusal(deps, session, origin, "refresh_token_invalid");
  const isNext = isDeviceChallenge(session, signed.challenge, deps.now());
  if (isNext && (await countDeviceProof(deps.sql, session, signed.key))) return cookieOf(session, deps.now());
  return challengeTo(await liveSession(deps, sessionId), deps.now());
}

/** Once for each session, within the life of the challenge that came with it. */
async function bindDevice(deps: ProveDeviceDeps, proof: string, origin: Origin): Promise<DeviceAnswer> {
  const signed = await checkDeviceProof(proof);
  if (signed === undefined) throw new DomainError("refresh_token_invalid");
  const session = await liveSession(deps, signed.challenge.split(".", 1)[0] ?? "");
  const first = { ...session, deviceProofs: 0 };
  if (!isDeviceChallenge(first, signed.challenge, deps.now())) throw new DomainError("refresh_token_invalid");
  if (!(await bind(deps, first, signed.key, origin))) {
    await liveSession(deps, session.id); // If it has moved or ended meanwhile, nothing is refused.
    throw await recordRefusal(deps, session, origin, "conflict");
  }
  deps.onSecurityEvent();
  return cookieOf(session, deps.now());
}

function bind({ sql, now }: ProveDeviceDeps, session: SessionRow, key: JWK, origin: Origin) {
  return transaction(sql, async (tx) => {
    const isBound = await countDeviceProof(tx, session, key);
    if (isBound) await insertSecurityEvent(tx, eventOf(session, "device_bound", origin, now()));
    return isBound;
  });
}

async function recordRefusal(
  { sql, now, onSecurityEvent }: ProveDeviceDeps,
  session: SessionRow,
  origin: Origin,
  code: "refresh_token_invalid" | "conflict",
): Promise<DomainError> {
  await transaction(sql, (tx) => insertSecurityEvent(tx, eventOf(session, "device_refused", origin, now())));
  onSecurityEvent();
  return new DomainError(code);
}

function eventOf(
  { id: sessionId, userId }: SessionRow,
  type: "device_bound" | "device_refused",
  origin: Origin,
  occurredAt: Date,
) {
  return { ...origin, id: uuidv7(), type, userId, sessionId, keyId: null, reason: "", occurredAt };
}

/** @throws {DomainError} `not_found`. */
async function liveSession({ sql, now }: ProveDeviceDeps, text: string): Promise<SessionRow> {
  const { data: id } = uuid.safeParse(text);
  const session = id === undefined ? undefined : await readSession(sql, id);
  if (session === undefined || session.revokedAt !== null || session.idleEnd <= now())
    throw new DomainError("not_found");
  return session;
}

function cookieOf(session: SessionRow, now: Date): DeviceAnswer {
  return {
    sessionId: session.id,
    cookie: deviceCookie(session, now),
    expiresInS: DEVICE_COOKIE_LIFE_S,
    challenge: "",
  };
}

function challengeTo(session: SessionRow, now: Date): DeviceAnswer {
  return { sessionId: session.id, cookie: "", expiresInS: 0, challenge: deviceChallenge(session, now) };
}
