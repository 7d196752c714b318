import type { Sql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientLimits } from "../clients/client-limits.ts";
import { listIdentities } from "../identities/external-identity-store.ts";
import { deleteExpired, insertFlow, type OAuthFlow } from "../identities/oauth-store.ts";
import type { LoginDeps } from "../login/login-deps.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import { type PasswordOwner, proveOwner } from "../passwords/prove-owner.ts";
import { findSessionEpoch } from "../sessions/session-end-store.ts";
import { spendOrRefuse } from "../throttle/spend-call.ts";
import type { Account } from "../users/account.ts";
import { needsVerifiedEmail } from "../users/can-log-in.ts";
import { type FlowSecrets, handleHash, newHandle } from "./oauth-flow-secrets.ts";
import type { RelyingParty } from "./relying-party.ts";

/** By name, in the order of the configuration. */
export interface RelyingParties {
  get(name: string): RelyingParty | undefined;
  values(): Iterable<RelyingParty>;
}

export interface OAuthDeps extends LoginDeps {
  providerShare: HashShare;
  relyingParties: RelyingParties;
  flowSecrets: FlowSecrets;
  /** Matched exactly. The first is the default. */
  returnTo: readonly string[];
  isPublicOriginSecure: boolean;
  /** Shared by clients' proofs and security events: each costs a signature check. */
  clientLimits: ClientLimits;
  /** By name of the provider. */
  countSecurityEvent: (provider: string, result: SecurityEventResult) => void;
}

type SecurityEventResult = "ended" | "no_account" | "repeated" | "no_effect" | "refused" | "failed";

/** @throws {DomainError} `email_not_verified`. */
export function assertMayLogIn(deps: Pick<OAuthDeps, "loginRequiresVerifiedEmail">, account: Account): void {
  if (needsVerifiedEmail(deps, account)) throw new DomainError("email_not_verified");
}

const FLOW_LIFETIME_S = 600;

interface OAuthBeginning {
  provider: string;
  /** Empty: the first configured one. */
  returnTo: string;
  /** S256. Empty: tokens instead of a one-time code. */
  codeChallenge: string;
  /** From an earlier login in this browser. */
  browserToken: string;
  /** It came in a cookie that only this origin can set. */
  isBrowserTokenSecure: boolean;
  /** The provider is to ask, although it may know the user. */
  isAfresh: boolean;
  /** Undefined for a login. */
  linkTo: PasswordOwner | undefined;
  clientIp: string;
  deviceToken?: string;
}

interface OAuthDeparture {
  authorizationUrl: string;
  /** 256 bits in base64url. Never logged. */
  browserToken: string;
  expiresInS: number;
  isSecure: boolean;
}

/**
 * Parallel logins share the browser token, so that tabs do not interfere.
 * @throws {DomainError} `provider_not_found`, `validation_failed`; for links also `already_linked`,
 * `email_not_verified` and as `proveOwner`.
 */
export async function beginOAuthLogin(
  deps: OAuthDeps,
  beginning: OAuthBeginning,
  context: CallContext,
): Promise<OAuthDeparture> {
  const party = relyingPartyOf(deps, beginning.provider);
  const returnTo = allowedReturnTo(deps, beginning.returnTo);
  const codeChallenge = beginning.codeChallenge || null;
  if (codeChallenge !== null && handleHash(codeChallenge) === undefined) throw badField("codeChallenge");
  await spendOrRefuse(deps, {
    kind: "oauth_login",
    clientIp: beginning.clientIp,
    deviceToken: beginning.deviceToken,
    // A link request has a session.
    isKnown: beginning.linkTo !== undefined,
  });
  const link = await prepareLink(deps, party, beginning.linkTo, context);
  const state = newHandle(deps.randomBytes);
  const { browserToken, browserHash } = bindToBrowser(deps, beginning);
  const proof = {
    state,
    nonce: deps.flowSecrets.nonceOf(state),
    verifier: deps.flowSecrets.verifierOf(state),
  };
  const authorizationUrl = await party.authorizationUrl(
    { ...proof, isAfresh: beginning.isAfresh },
    context.deadlineMs,
  );
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + FLOW_LIFETIME_S * 1_000);
  const stateHash = hashOf(state);
  await insertFlow(deps.sql, {
    stateHash,
    browserHash,
    provider: party.name,
    returnTo,
    codeChallenge,
    ...link,
    createdAt,
    expiresAt,
  });
  const isSecure = deps.isPublicOriginSecure;
  return { authorizationUrl: authorizationUrl.href, browserToken, expiresInS: FLOW_LIFETIME_S, isSecure };
}

/** @throws {DomainError} `provider_not_found`. */
export function relyingPartyOf(deps: Pick<OAuthDeps, "relyingParties">, name: string): RelyingParty {
  const party = deps.relyingParties.get(name);
  if (party === undefined) throw new DomainError("provider_not_found");
  return party;
}

function allowedReturnTo({ returnTo: [first = "", ...others] }: OAuthDeps, wanted: string): string {
  if (wanted === "" || wanted === first) return first;
  if (!others.includes(wanted)) throw badField("returnTo");
  return wanted;
}

async function prepareLink(
  deps: OAuthDeps,
  party: RelyingParty,
  owner: PasswordOwner | undefined,
  context: CallContext,
): Promise<Pick<OAuthFlow, "linkUserId" | "linkSessionEpoch" | "linkSessionId">> {
  if (owner === undefined) return { linkUserId: null, linkSessionEpoch: null, linkSessionId: null };
  // Before the proof, so that a later session end cancels the flow too.
  const linkSessionEpoch = await findSessionEpoch(deps.sql, owner.userId);
  const account = await proveOwner(deps, "linkIdentity", owner, context.deadlineMs);
  if (linkSessionEpoch === undefined) throw new DomainError("invalid_credentials");
  if (account.credentialsProvenAt === null) throw new DomainError("email_not_verified");
  const linked = await listIdentities(deps.sql, owner.userId);
  if (linked.some(({ provider }) => provider === party.name)) throw new DomainError("already_linked");
  return { linkUserId: owner.userId, linkSessionEpoch, linkSessionId: owner.sessionId || null };
}

function bindToBrowser(
  deps: OAuthDeps,
  beginning: OAuthBeginning,
): { browserToken: string; browserHash: Buffer } {
  const isOurs = beginning.isBrowserTokenSecure || !deps.isPublicOriginSecure;
  const kept = isOurs ? handleHash(beginning.browserToken) : undefined;
  if (kept !== undefined) return { browserToken: beginning.browserToken, browserHash: kept };
  const browserToken = newHandle(deps.randomBytes);
  return { browserToken, browserHash: hashOf(browserToken) };
}

function hashOf(handle: string): Buffer {
  const hash = handleHash(handle);
  if (hash === undefined) throw new Error("the generated handle has an invalid format");
  return hash;
}

function badField(field: string): DomainError {
  const message = field === "returnTo" ? "is not a configured address" : "must be an S256 challenge";
  return new DomainError("validation_failed", undefined, {
    fields: [{ field, code: "invalid_value", message }],
  });
}

export function listProviders(
  deps: Pick<OAuthDeps, "relyingParties">,
): { name: string; displayName: string }[] {
  return [...deps.relyingParties.values()].map(({ name, displayName }) => ({ name, displayName }));
}

const MAX_BATCH = 1_000;

export async function deleteExpiredOAuth(deps: { sql: Sql; now: () => Date }): Promise<void> {
  while ((await deleteExpired(deps.sql, deps.now(), MAX_BATCH)) >= MAX_BATCH);
}
