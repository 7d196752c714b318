import { DomainError } from "#kit/values/errors.ts";
import { type AssuranceLevel, assertAssured, parseAcr } from "#token-client/assurance.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { OpenLink } from "../mail/link-store.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { type ReauthenticateDeps, type Reauthentication, reauthenticate } from "./reauthenticate.ts";

/** What the token says of the session in which a user changes how they log in. */
export interface OwnerSession {
  acr: AssuranceLevel;
  /** When that level was last proven. */
  authTime: Date;
}

/** A logged-in user. */
export interface Owner extends ClientOrigin, OwnerSession {
  userId: string;
  sessionId: string;
}

/** With what they typed; empty without. */
export interface PasswordOwner extends Owner {
  password: string;
}

interface Demand {
  /** Every account must show it. `password_or_login`: without a password, a login of the last ten minutes. */
  anyone: "session" | "fresh_session" | "password" | "password_or_login";
  /** Accounts with a second factor must show it, too. `code`: in the request itself. */
  withFactor: "fresh_level_2" | "code";
}

/**
 * Every change of how one logs in that is made in a session (docs/decisions/login-and-assurance.md). A link out of a mail is a proof of its own
 * (verification, reset, confirmation of an address, both undo links), and a `tempToken` is one of a login under way.
 */
const DEMANDS = {
  beginTotp: { anyone: "password", withFactor: "fresh_level_2" },
  confirmTotp: { anyone: "session", withFactor: "fresh_level_2" },
  disableTotp: { anyone: "password", withFactor: "code" },
  renewRecoveryCodes: { anyone: "session", withFactor: "code" },
  beginPasskey: { anyone: "fresh_session", withFactor: "fresh_level_2" },
  addPasskey: { anyone: "session", withFactor: "fresh_level_2" },
  deletePasskey: { anyone: "fresh_session", withFactor: "fresh_level_2" },
  linkIdentity: { anyone: "password_or_login", withFactor: "fresh_level_2" },
  unlinkIdentity: { anyone: "password_or_login", withFactor: "fresh_level_2" },
  changeEmail: { anyone: "password", withFactor: "fresh_level_2" },
  changePassword: { anyone: "password", withFactor: "fresh_level_2" },
  removeTrustedDevice: { anyone: "session", withFactor: "fresh_level_2" },
  deleteAccount: { anyone: "password", withFactor: "fresh_level_2" },
} as const satisfies Record<string, Demand>;

type LoginChange = keyof typeof DEMANDS;

type ByPassword = {
  [change in LoginChange]: (typeof DEMANDS)[change]["anyone"] extends `password${string}` ? change : never;
}[LoginChange];

/** After which a stolen session cannot change how one logs in. */
const FRESH_S = 5 * 60;
const RECENT_LOGIN_MS = 10 * 60_000;

/** Call under the lock of the account, or by `proveOwner`. @throws {DomainError} `step_up_required`. */
export function assertOwner(
  { now }: { now: () => Date },
  change: LoginChange,
  owner: OwnerSession,
  account: Pick<Account, "mfaEnabled">,
): void {
  const { anyone, withFactor }: Demand = DEMANDS[change];
  const acr = account.mfaEnabled && withFactor === "fresh_level_2" ? 2 : 1;
  const isAsked = acr === 2 || anyone === "fresh_session";
  assertAssured(isAsked ? { acr, maxAgeSeconds: FRESH_S } : undefined, owner, now().getTime());
}

/**
 * Asks for the level first, so that a session of one factor cannot guess at the password. Compare the result by
 * `isStill` under the lock.
 * @throws {DomainError} `step_up_required`, `invalid_credentials`, `reauthentication_required`.
 */
export async function proveOwner(
  deps: ReauthenticateDeps & { now: () => Date },
  change: ByPassword,
  claim: Reauthentication & OwnerSession,
  deadlineMs: number,
): Promise<Account> {
  const account = await findAccountById(deps.sql, claim.userId);
  if (account?.status !== "active") throw new DomainError("invalid_credentials");
  assertOwner(deps, change, claim, account);
  const { anyone } = DEMANDS[change];
  if (anyone === "password" || account.passwordHash !== null) {
    if (claim.password === "") throw new DomainError("reauthentication_required");
    await reauthenticate(deps, claim, deadlineMs);
  } else if (!isRecent(deps.now(), claim.authTime, account)) {
    throw new DomainError("reauthentication_required");
  }
  return account;
}

/** An earlier login may be an attacker's. Login times have whole seconds (RFC 7519 §2). */
function isRecent(now: Date, authTime: Date, { credentialsProvenAt }: Account): boolean {
  if (now.getTime() - authTime.getTime() > RECENT_LOGIN_MS) return false;
  const provenS = Math.floor((credentialsProvenAt?.getTime() ?? 0) / 1_000);
  return Math.floor(authTime.getTime() / 1_000) >= provenS;
}

export interface LinkReader {
  token: string;
  /** Empty without a session. */
  sessionUserId: string;
  password: string;
  clientIp: string;
}

/**
 * Whether the reader of a link that was mailed to a new or unverified address also holds the account: a link of a
 * change of address was made for an owner as above. Returns the account at the time of the proof, for `isStill`;
 * undefined without a proof. Throttled like a reauthentication.
 * @throws {DomainError} `invalid_credentials`.
 */
export async function proveReader(
  deps: ReauthenticateDeps,
  { userId }: OpenLink,
  { sessionUserId, password, clientIp }: LinkReader,
  deadlineMs: number,
): Promise<Account | undefined> {
  if (sessionUserId !== "" && sessionUserId !== userId) throw new DomainError("invalid_credentials");
  if (password !== "") return reauthenticate(deps, { userId, password, clientIp }, deadlineMs);
  return sessionUserId === "" ? undefined : findAccountById(deps.sql, userId);
}

/** A session whose proof is not dated is an old one. @throws {DomainError} `validation_failed` without an owner. */
export function decodeOwner<T extends { authTime?: Date | undefined; acr: string }>(
  message: T | undefined,
): Omit<T, keyof OwnerSession> & OwnerSession {
  if (message === undefined) throw new DomainError("validation_failed", "the owner is required");
  const { authTime = new Date(0), acr, ...rest } = message;
  return { ...rest, authTime, acr: parseAcr(acr) ?? 1 };
}
