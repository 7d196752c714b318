import { createHash } from "node:crypto";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type ClientOrigin, storableOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { describeOrigin } from "../mail/describe-origin.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { makeLink } from "../mail/make-link.ts";
import { isMfaRequired } from "../mfa/second-factors.ts";
import { assertOwner, type OwnerSession } from "../passwords/prove-owner.ts";
import type { KnownDevice } from "../throttle/device-token.ts";
import { networkStanding } from "../throttle/known-caller.ts";
import {
  deleteTrust,
  deleteTrustOfReplacedSecret,
  findTrust,
  insertTrust,
  listTrusts,
  renewTrust,
  type ShownTrust,
  type TrustedDevice,
} from "../throttle/trusted-device-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import type { LoginDeps } from "./login-deps.ts";

/** A live trust that a device token shows. */
interface Trust {
  /** UUID. */
  id: string;
  shown: ShownTrust;
}

const MAX_DEVICES_OF_USER = 10;
const SECRET_BYTES = 32;
const DAY_MS = 24 * 3_600_000;

/** The days for which this user may trust a device. Undefined: not at all. */
export function trustDaysFor(deps: LoginDeps, user: Pick<Account, "role">): number | undefined {
  return isMfaRequired(deps, user) ? undefined : deps.trustedDeviceDays || undefined;
}

function trustPeriod(deps: Pick<LoginDeps, "now" | "trustedDeviceDays">) {
  const now = deps.now();
  return { now, createdAfter: new Date(now.getTime() - deps.trustedDeviceDays * DAY_MS) };
}

/** Call after the first factor is proven. A replaced secret ends the trust, because somebody has copied the cookie. */
export async function readTrust(
  deps: LoginDeps,
  user: Account,
  device: KnownDevice | undefined,
  context: CallContext,
): Promise<Trust | undefined> {
  if (device?.trustSecret === undefined || trustDaysFor(deps, user) === undefined) return undefined;
  const of = { userId: user.id, deviceId: device.id, secretHash: hashOf(device.trustSecret) };
  const shown = { ...of, ...trustPeriod(deps) };
  const id = await findTrust(deps.sql, shown);
  if (id !== undefined) return { id, shown };
  await transaction(deps.sql, async (tx) => {
    const ended = await deleteTrustOfReplacedSecret(tx, shown);
    if (ended === undefined) return;
    const reason = `device ${ended}: replaced secret`;
    await recordAudit(tx, deps, { type: "trusted_device_removed", userId: user.id, reason }, context);
  });
  return undefined;
}

/** Whether a trust replaces the code. In a network from which the user has not logged in, it does not. */
export async function sparesCode(
  deps: LoginDeps,
  user: Account,
  trust: Trust | undefined,
  { clientIp }: ClientOrigin,
): Promise<boolean> {
  // The code comes before the new password.
  if (trust === undefined || user.mustChangePassword) return false;
  return (await networkStanding(deps, user.email, clientIp)) === "own_network";
}

interface TrustStep extends ClientOrigin {
  user: Account;
  /** Of the login. Empty for a deleted account. */
  deviceToken: string;
  trust: Trust | undefined;
  /** A second factor was proven, and the user wants the device to be trusted. */
  isWanted: boolean;
  /** No code was asked for. */
  isCodeSpared: boolean;
}

/** Call with the new session. Returns the token of a trusted device; undefined if it is not trusted (any more). */
export async function settleTrust(
  deps: LoginDeps,
  step: TrustStep,
  context: CallContext,
): Promise<string | undefined> {
  const device = deps.deviceTokens.read(step.deviceToken);
  if (device === undefined || (!step.isWanted && step.trust === undefined)) return undefined;
  const secret = deps.randomBytes(SECRET_BYTES).toString("base64url");
  const outcome = await transaction(deps.sql, async (tx) => {
    const owner = await lockAccountForMfa(tx, step.user.id);
    const isSame = owner?.sessionEpoch === step.user.sessionEpoch;
    if (owner === undefined || !isSame || trustDaysFor(deps, owner) === undefined) return undefined;
    const settled = { ...step, deviceId: device.id, secretHash: hashOf(secret) };
    return step.isWanted
      ? begin(tx, deps, { ...settled, owner }, context)
      : renew(tx, deps, settled, context);
  });
  if (outcome === undefined) return undefined;
  if (outcome === "begun") deps.wakeMailWorker();
  return deps.deviceTokens.issue({ ...device, trustSecret: secret });
}

type SettledStep = TrustStep & { deviceId: string; secretHash: Buffer };

async function renew(
  tx: TransactionSql,
  deps: LoginDeps,
  { user, trust, secretHash, isCodeSpared, ...from }: SettledStep,
  context: CallContext,
): Promise<"renewed" | undefined> {
  if (trust === undefined) return undefined;
  const next = { secretHash, ...storableOrigin(from) };
  if (!(await renewTrust(tx, { ...trust.shown, now: deps.now() }, next))) return undefined;
  if (isCodeSpared)
    await recordTrust(tx, deps, { type: "trusted_device_used", user, id: trust.id, from }, context);
  return "renewed";
}

/** With an undo link, because it may be an attacker's device. */
async function begin(
  tx: TransactionSql,
  deps: LoginDeps,
  { owner, deviceId, secretHash, ...from }: SettledStep & { owner: Locked<Account> },
  context: CallContext,
): Promise<"begun"> {
  const { id: userId, email: recipient, sessionEpoch } = owner;
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.trustedDeviceDays * DAY_MS);
  const times = { createdAt, lastUsedAt: createdAt, expiresAt };
  const id = deps.newId();
  const trust = { id, userId, deviceId, secretHash, sessionEpoch, ...times, ...storableOrigin(from) };
  await insertTrust(tx, trust, MAX_DEVICES_OF_USER);
  const link = await makeLink(tx, deps, { userId, purpose: "undo_access_change" });
  const data = { ...describeOrigin(from, createdAt), until: expiresAt.toISOString(), link };
  const mail = { id: deps.newId(), userId, recipient };
  await enqueueMail(tx, { ...mail, template: "device-trusted", data }, createdAt);
  await recordTrust(tx, deps, { type: "device_trusted", user: owner, id, from }, context);
  return "begun";
}

/** By the owner: the proofs of the login have no session yet. */
async function recordTrust(
  tx: TransactionSql,
  deps: LoginDeps,
  use: {
    type: "device_trusted" | "trusted_device_used";
    user: Pick<Account, "id">;
    id: string;
    from: ClientOrigin;
  },
  context: CallContext,
): Promise<void> {
  const { type, user, id, from } = use;
  const { clientIp, userAgent } = from;
  const event = { type, userId: user.id, byOwner: true, reason: `device ${id}`, clientIp, userAgent };
  await recordAudit(tx, deps, event, context);
}

function hashOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** Newest first, at most 10. */
export function listTrustedDevices(
  deps: Pick<LoginDeps, "sql" | "now" | "trustedDeviceDays">,
  userId: string,
): Promise<TrustedDevice[]> {
  return listTrusts(deps.sql, { userId, ...trustPeriod(deps) });
}

/** Its sessions go on. @throws {DomainError} `step_up_required`; `not_found`, also for another user's. */
export async function removeTrustedDevice(
  deps: Pick<LoginDeps, "sql" | "now" | "newId">,
  { userId, trustedDeviceId: id, ...session }: OwnerSession & { userId: string; trustedDeviceId: string },
  context: CallContext,
): Promise<void> {
  await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user?.status !== "active") throw new DomainError("not_found");
    assertOwner(deps, "removeTrustedDevice", session, user);
    if (!(await deleteTrust(tx, { userId, id }))) throw new DomainError("not_found");
    const event = { type: "trusted_device_removed", userId, reason: `device ${id}` } as const;
    await recordAudit(tx, deps, event, context);
  });
}
