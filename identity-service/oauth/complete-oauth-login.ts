import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError, type ErrorCode } from "../../service-kit/errors.ts";
import type { LinkedIdentity } from "../identities/external-identity-store.ts";
import { insertCode, type OAuthFlow, takeFlow } from "../identities/oauth-store.ts";
import type { PendingLogin } from "../login/begin-mfa-challenge.ts";
import type { CompletedLogin } from "../login/login.ts";
import { endSessions } from "../sessions/end-sessions.ts";
import { isStillLoggedIn } from "../sessions/is-still-logged-in.ts";
import type { Account } from "../users/user-store.ts";
import { type Arrival, accountOfPerson } from "./account-of-person.ts";
import { relyingPartyOf } from "./begin-oauth-login.ts";
import { finishOAuthLogin } from "./finish-oauth-login.ts";
import { linkIdentity } from "./link-identity.ts";
import type { CallOrigin, OAuthDeps } from "./oauth-deps.ts";
import { handleHash, newHandle } from "./oauth-flow-secrets.ts";
import type { ProviderAnswer, RelyingParty } from "./relying-party.ts";

const CODE_LIFETIME_MS = 60_000;

export interface OAuthArrival extends ProviderAnswer, CallOrigin {
  provider: string;
  /** The token from the beginning of the login. Optional. */
  browserToken: string;
  /** Whether the token came in a cookie that only this origin can set. */
  isBrowserTokenSecure: boolean;
}

export type OAuthResult =
  | { kind: "completed"; login: CompletedLogin }
  | { kind: "pending"; pending: PendingLogin }
  | { kind: "code"; code: string; userId: string }
  | { kind: "linked"; identity: LinkedIdentity }
  | { kind: "refused"; code: ErrorCode };

interface FlowEnd {
  result: OAuthResult;
  /** Sessions of an account that the login has claimed. */
  endedSessionIds: readonly string[];
}

/** Errors reported through the redirect to the client. Others fail the call. */
export const TOLD: ReadonlySet<ErrorCode> = new Set([
  "oauth_failed",
  "oauth_denied",
  "link_required",
  "already_linked",
  "email_not_verified",
  "busy",
  "service_unavailable",
]);

/**
 * Completes a login or link with the provider's answer. The flow is consumed before the provider is called, so that
 * invalid and repeated answers cost one index lookup.
 * @throws {DomainError} `provider_not_found`, `oauth_state_invalid`, `service_unavailable`.
 */
export async function completeOAuthLogin(
  deps: OAuthDeps,
  arrival: OAuthArrival,
  context: CallContext,
): Promise<{ returnTo: string } & FlowEnd> {
  const party = relyingPartyOf(deps, arrival.provider);
  const flow = await takeFlowOf(deps, arrival);
  try {
    return { returnTo: flow.returnTo, ...(await completeFlow(deps, party, flow, arrival, context)) };
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    const code = told(error.code);
    if (code === undefined) throw error;
    deps.logger.info({ provider: party.name, code, reason: error.message }, "login at a provider refused");
    return { returnTo: flow.returnTo, result: { kind: "refused", code }, endedSessionIds: [] };
  }
}

function told(code: ErrorCode): ErrorCode | undefined {
  // Sessions were ended while this one began: whoever it is must prove it anew.
  if (code === "invalid_credentials") return "oauth_failed";
  return TOLD.has(code) ? code : undefined;
}

async function takeFlowOf(deps: OAuthDeps, arrival: OAuthArrival): Promise<OAuthFlow> {
  const stateHash = handleHash(arrival.state);
  const isOurs = arrival.isBrowserTokenSecure || !deps.isPublicOriginSecure;
  const browserHash = isOurs ? handleHash(arrival.browserToken) : undefined;
  if (stateHash === undefined || browserHash === undefined) throw new DomainError("oauth_state_invalid");
  const wanted = { stateHash, browserHash, provider: arrival.provider, now: deps.now() };
  const flow = await takeFlow(deps.sql, wanted);
  if (flow === undefined) throw new DomainError("oauth_state_invalid");
  return flow;
}

async function completeFlow(
  deps: OAuthDeps,
  party: RelyingParty,
  flow: OAuthFlow,
  arrival: OAuthArrival,
  context: CallContext,
): Promise<FlowEnd> {
  const { state, clientIp, userAgent } = arrival;
  const proof = {
    state,
    nonce: deps.flowSecrets.nonceOf(state),
    verifier: deps.flowSecrets.verifierOf(state),
  };
  // Limits concurrent code exchanges per network, as an invalid code occupies a connection to the provider.
  const person = await deps.providerShare.run({ clientIp }, () => party.identify(arrival, proof));
  const arrived: Arrival = { party, person, clientIp, userAgent };
  if (flow.linkUserId !== null && flow.linkSessionEpoch !== null) {
    const owner = { userId: flow.linkUserId, sessionEpoch: flow.linkSessionEpoch };
    const began = { userId: flow.linkUserId, sessionId: flow.linkSessionId };
    if (!(await isStillLoggedIn(deps, began, context))) throw new DomainError("oauth_failed");
    const identity = await linkIdentity(deps, arrived, owner, context);
    return { result: { kind: "linked", identity }, endedSessionIds: [] };
  }
  const { account, end } = await accountOfPerson(deps, arrived, context);
  deps.wakeMailWorker();
  // Ends the old sessions before the new one exists.
  const endedSessionIds = end === undefined ? [] : await endSessions(deps, end, context);
  return { result: await logIn(deps, account, flow, arrival, context), endedSessionIds };
}

async function logIn(
  deps: OAuthDeps,
  account: Account,
  { codeChallenge }: OAuthFlow,
  from: CallOrigin,
  context: CallContext,
): Promise<OAuthResult> {
  if (codeChallenge !== null) return makeCode(deps, account, codeChallenge);
  const { user, sessionEpoch } = account;
  const login = await finishOAuthLogin(deps, { user, sessionEpoch, authTime: deps.now() }, from, context);
  return "pending" in login ? { kind: "pending", pending: login.pending } : { kind: "completed", login };
}

/** The session begins at the exchange, so that no token is stored. */
async function makeCode(deps: OAuthDeps, account: Account, codeChallenge: string): Promise<OAuthResult> {
  const { user, sessionEpoch } = account;
  if (deps.loginRequiresVerifiedEmail && !user.emailVerified) throw new DomainError("email_not_verified");
  const code = newHandle(deps.randomBytes);
  const codeHash = handleHash(code);
  if (codeHash === undefined) throw new Error("the generated code has an invalid format");
  const authTime = deps.now();
  const expiresAt = new Date(authTime.getTime() + CODE_LIFETIME_MS);
  const facts = { codeHash, codeChallenge, userId: user.id, sessionEpoch, authTime, expiresAt };
  await insertCode(deps.sql, facts);
  return { kind: "code", code, userId: user.id };
}
