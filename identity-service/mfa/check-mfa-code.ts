import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { describeOrigin } from "../mail/describe-origin.ts";
import { dailyNoticeId } from "../mail/mail.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { ReauthenticateDeps } from "../passwords/reauthenticate.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import { endWrongRows } from "../throttle/mfa-guessing-store.ts";
import { assertTriesLeft, noteWrongCode } from "../throttle/mfa-tries.ts";
import type { Account, Locked, Role } from "../users/account.ts";
import {
  consumeRecoveryCode,
  consumeTotpStep,
  countRecoveryCodes,
  findTotpCredential,
  type TotpCredential,
} from "./mfa-store.ts";
import { type ParsedCode, parseCode } from "./recovery-code.ts";
import { totpStep } from "./totp.ts";
import { type MfaKeys, openTotpSecret } from "./totp-secret.ts";

export interface TypedCode extends ClientOrigin {
  code: string;
}

export interface MfaDeps extends ReauthenticateDeps, EndSessionsDeps, MakeLinkDeps {
  mfaKeys: MfaKeys;
  mfaIssuer: string;
  /** Users of these roles cannot log in without a second factor. */
  mfaRequiredRoles: ReadonlySet<Role>;
  deviceTokens: Pick<DeviceTokens, "read">;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
  wakeMailWorker: () => void;
}

export type MfaMethod = "totp" | "recovery_code";

/** Wrong codes in a row. */
const NOTIFIED_FROM = 5;

interface DeviceShown {
  /** Without one, the device is unknown. */
  deviceToken?: string;
}

export type CodeSource = "session" | DeviceShown;

interface ShownCode {
  user: Locked<Account>;
  typed: TypedCode;
  source: CodeSource;
}

/**
 * Undefined for a wrong code, which counts: commit, then call `refuseWrongCode`.
 * @throws {DomainError} `validation_failed` or `too_many_requests`, without an attempt.
 */
export async function checkMfaCode(
  tx: TransactionSql,
  deps: Omit<MfaDeps, "sql">,
  { user, typed, source }: ShownCode,
  context: CallContext,
): Promise<MfaMethod | undefined> {
  const code = parseCode(typed.code);
  const credential = await findTotpCredential(tx, user.id);
  const isOn = credential !== undefined && credential.confirmedAt !== null;
  const method =
    user.mfaEnabled && code.kind === "recovery_code" ? await useRecoveryCode(tx, user, code.hash) : undefined;
  const origin = { userId: user.id, isKnownDevice: isKnown(deps, user, credential, source) };
  // After recovery codes, which wrong TOTP codes must not block.
  if (method === undefined) await assertTriesLeft(tx, deps, origin);
  const accepted = method ?? (isOn ? await useTotpCode(tx, deps, { user, credential, code }) : undefined);
  if (accepted === "recovery_code") await recordRecoveryCodeUse(tx, deps, { user, typed }, context);
  if (accepted !== undefined) await endWrongRows(tx, user.id);
  else {
    const inARow = await noteWrongCode(tx, deps, origin);
    if (user.mfaEnabled && inARow >= NOTIFIED_FROM) await notifyOfGuessing(tx, deps, user, typed);
  }
  return accepted;
}

/** Call after the commit. A notice may be due. */
export function refuseWrongCode(deps: Pick<MfaDeps, "wakeMailWorker">): never {
  deps.wakeMailWorker();
  throw new DomainError("mfa_code_invalid");
}

async function useRecoveryCode(
  tx: TransactionSql,
  user: Locked<Account>,
  hash: Buffer,
): Promise<"recovery_code" | undefined> {
  // They work without a key.
  return (await consumeRecoveryCode(tx, user.id, hash)) ? "recovery_code" : undefined;
}

async function useTotpCode(
  tx: TransactionSql,
  deps: Pick<MfaDeps, "mfaKeys" | "now">,
  { user, credential, code }: { user: Locked<Account>; credential: TotpCredential; code: ParsedCode },
): Promise<"totp" | undefined> {
  if (code.kind !== "totp") return undefined;
  const step = totpStep(openTotpSecret(deps.mfaKeys, user.id, credential), code.digits, deps.now());
  return step !== undefined && (await consumeTotpStep(tx, user.id, step)) ? "totp" : undefined;
}

/** Only if it has passed this second factor. */
function isKnown(
  deps: Pick<MfaDeps, "deviceTokens">,
  user: Locked<Account>,
  credential: TotpCredential | undefined,
  source: CodeSource,
): boolean {
  if (source === "session") return true;
  const device = deps.deviceTokens.read(source.deviceToken ?? "");
  return (
    device?.userId === user.id &&
    device.passwordEpoch === user.passwordEpoch &&
    credential?.confirmedAt != null &&
    device.issuedAtS * 1_000 >= credential.confirmedAt.getTime()
  );
}

async function recordRecoveryCodeUse(
  tx: TransactionSql,
  deps: Omit<MfaDeps, "sql">,
  { user, typed }: Pick<ShownCode, "user" | "typed">,
  context: CallContext,
): Promise<void> {
  const codesLeft = String(await countRecoveryCodes(tx, user.id));
  const mail = { id: deps.newId(), userId: user.id, recipient: user.email };
  const now = deps.now();
  const data = { ...describeOrigin(typed, now), codesLeft };
  await enqueueMail(tx, { ...mail, template: "recovery-code-used", data }, now);
  const { clientIp, userAgent } = typed;
  const used = { type: "recovery_code_used", userId: user.id, byOwner: true, clientIp, userAgent } as const;
  await recordAudit(tx, deps, used, context);
}

/** The password was right and may be stolen. At most daily. */
async function notifyOfGuessing(
  tx: TransactionSql,
  deps: Omit<MfaDeps, "sql">,
  user: Locked<Account>,
  typed: TypedCode,
): Promise<void> {
  const now = deps.now();
  const template = "mfa-guessed";
  const mail = { id: dailyNoticeId(template, user.id, now), userId: user.id, recipient: user.email };
  await enqueueMail(tx, { ...mail, template, data: describeOrigin(typed, now) }, now);
}
