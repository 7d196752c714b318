import { type LinkedIdentity, listIdentities } from "../identities/external-identity-store.ts";
import { listMailsOfUser, type MailRecord } from "../mail/mail-outbox-store.ts";
import { countRecoveryCodes, findTotpSince } from "../mfa/mfa-store.ts";
import { listPasskeys, type Passkey } from "../passkeys/passkey-store.ts";
import { listTrusts } from "../throttle/trusted-device-store.ts";
import type { Account } from "../users/account.ts";
import { getAccount } from "../users/get-account.ts";
import type { AdminDeps } from "./authorize.ts";

const DAY_MS = 24 * 3_600_000;
const MAX_MAILS = 50;

export interface UserDetails {
  /** Null: until a known device or network succeeds, or an unlock. Undefined: not locked. */
  lockedUntil: Date | null | undefined;
  totpSince: Date | undefined;
  passkeys: Passkey[];
  recoveryCodesLeft: number;
  providers: LinkedIdentity[];
  trustedDevices: number;
  /** Newest first. */
  mails: MailRecord[];
}

/** What helps to answer the user's questions. No secrets. @throws {DomainError} `not_found`. */
export async function describeUser(
  deps: Pick<AdminDeps, "sql" | "throttle" | "trustedDeviceDays" | "now">,
  wanted: string,
): Promise<{ account: Account; details: UserDetails }> {
  const { sql } = deps;
  const account = await getAccount(deps, wanted);
  const { id: userId, email } = account;
  const now = deps.now();
  const createdAfter = new Date(now.getTime() - deps.trustedDeviceDays * DAY_MS);
  const [untilMs, totpSince, passkeys, recoveryCodesLeft, providers, trusts, mails] = await Promise.all([
    deps.throttle.lockedUntil(email),
    findTotpSince(sql, userId),
    listPasskeys(sql, userId),
    countRecoveryCodes(sql, userId),
    listIdentities(sql, userId),
    listTrusts(sql, { userId, now, createdAfter }),
    listMailsOfUser(sql, userId, MAX_MAILS),
  ]);
  const lockedUntil =
    untilMs === undefined ? undefined : untilMs === Number.POSITIVE_INFINITY ? null : new Date(untilMs);
  const trustedDevices = trusts.length;
  const details = { lockedUntil, totpSince, passkeys, recoveryCodesLeft, providers, trustedDevices, mails };
  return { account, details };
}
