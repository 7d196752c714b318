import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import type { LinkedIdentity } from "../identities/external-identity-store.ts";
import { insertCode, type OAuthCode, type OAuthFlow, takeFlow } from "../identities/oauth-store.ts";
import { completeLogin } from "../login/complete-login.ts";
import type { LoginResult } from "../login/login-result.ts";
import type { LoginOrigin } from "../login/remember-device.ts";
import { endSessions } from "../sessions/end-sessions.ts";
import { isStillLoggedIn } from "../sessions/token-service-client.ts";
import type { Account } from "../users/account.ts";
import { assertMayLogIn, type OAuthDeps, relyingPartyOf } from "./begin-oauth-login.ts";
import { loggedInAt } from "./external-person.ts";
import { linkIdentity } from "./link-identity.ts";
import { handleHash, newHandle } from "./oauth-flow-secrets.ts";
import { type Arrival, openAccount } from "./open-account.ts";
import type { ProviderAnswer, RelyingParty } from "./relying-party.ts";

const CODE_LIFETIME_MS = 60_000;

export interface OAuthArrival extends ProviderAnswer, LoginOrigin {
  provider: string;
  browserToken: string;
  isBrowserTokenSecure: boolean;
  /** Of the browser. May be empty. */
  language: string;
}

export type OAuthResult =
  | LoginResult
  | OneTimeCode
  | { kind: "linked"; identity: LinkedIdentity }
  | { kind: "refused"; code: ErrorCode };

/** For `exchangeOAuthCode`. */
interface OneTimeCode {
  kind: "oneTimeCode";
  code: string;
  userId: string;
}

interface FlowEnd {
  result: OAuthResult;
  /** Sessions of a claimed account. */
  endedSessionIds: readonly string[];
}

/** Reported through the redirect. Others fail the call. */
export const REDIRECTED: ReadonlySet<ErrorCode> = new Set([
  "oauth_failed",
  "oauth_denied",
  "link_required",
  "already_linked",
  "email_not_verified",
  "busy",
  "service_unavailable",
]);

/**
 * Consumes the flow first, so that invalid and repeated answers cost one index lookup.
 * @throws {DomainError} `provider_not_found`, `oauth_state_invalid`.
 */
export async function completeOAuthLogin(
  deps: OAuthDeps,
  arrival: OAuthArrival,
  context: CallContext,
): Promise<{ returnTo: string } & FlowEnd> {
  const party = relyingPartyOf(deps, arrival.provider);
  const flow = await takeArrivedFlow(deps, arrival);
  try {
    const complete = flow.linkUserId === null ? completeLoginFlow : completeLinkFlow;
    return { returnTo: flow.returnTo, ...(await complete(deps, { party, flow, arrival }, context)) };
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    const { code } = error;
    if (!REDIRECTED.has(code)) throw error;
    deps.logger.info({ provider: party.name, code, reason: error.message }, "login at a provider refused");
    return { returnTo: flow.returnTo, result: { kind: "refused", code }, endedSessionIds: [] };
  }
}

async function takeArrivedFlow(deps: OAuthDeps, arrival: OAuthArrival): Promise<OAuthFlow> {
  const stateHash = handleHash(arrival.state);
  const isOurs = arrival.isBrowserTokenSecure || !deps.isPublicOriginSecure;
  const browserHash = isOurs ? handleHash(arrival.browserToken) : undefined;
  if (stateHash === undefined || browserHash === undefined) throw new DomainError("oauth_state_invalid");
  const wanted = { stateHash, browserHash, provider: arrival.provider, now: deps.now() };
  const flow = await takeFlow(deps.sql, wanted);
  if (flow === undefined) throw new DomainError("oauth_state_invalid");
  return flow;
}

/** From the provider, with the flow that it answers. */
interface Returned {
  party: RelyingParty;
  flow: OAuthFlow;
  arrival: OAuthArrival;
}

async function completeLinkFlow(
  deps: OAuthDeps,
  { party, flow: { linkUserId, linkSessionEpoch, linkSessionId }, arrival }: Returned,
  context: CallContext,
): Promise<FlowEnd> {
  const arrived = await identify(deps, party, arrival);
  const userId = linkUserId ?? "";
  const began = { userId, sessionId: linkSessionId };
  if (linkSessionEpoch === null || !(await isStillLoggedIn(deps, began, context)))
    throw new DomainError("oauth_failed");
  const linking = { arrival: arrived, userId, sessionEpoch: linkSessionEpoch };
  const identity = await linkIdentity(deps, linking, context);
  return { result: { kind: "linked", identity }, endedSessionIds: [] };
}

async function completeLoginFlow(
  deps: OAuthDeps,
  { party, flow: { codeChallenge }, arrival }: Returned,
  context: CallContext,
): Promise<FlowEnd> {
  let endedSessionIds: readonly string[] = [];
  const login = async () => {
    const arrived = await identify(deps, party, arrival);
    const authTime = loggedInAt(arrived.person, deps.now());
    const { account, end } = await openAccount(deps, arrived, context);
    deps.wakeMailWorker();
    // Before the new session exists.
    if (end !== undefined) endedSessionIds = await endSessions(deps, end, context);
    assertMayLogIn(deps, account);
    return codeChallenge === null
      ? logIn(deps, { user: account, authTime }, arrival, context)
      : makeCode(deps, { account, authTime, codeChallenge });
  };
  const result = await deps.countLogin("provider", login());
  return { result, endedSessionIds };
}

async function identify(deps: OAuthDeps, party: RelyingParty, arrival: OAuthArrival): Promise<Arrival> {
  const { state, clientIp, userAgent, language } = arrival;
  const proof = {
    state,
    nonce: deps.flowSecrets.nonceOf(state),
    verifier: deps.flowSecrets.verifierOf(state),
  };
  // Per network, because each occupies a connection to the provider.
  const person = await deps.providerShare.run({ clientIp }, () => party.identify(arrival, proof));
  return { party, person, language, clientIp, userAgent };
}

function logIn(
  deps: OAuthDeps,
  { user, authTime }: { user: Account; authTime: Date },
  origin: LoginOrigin,
  context: CallContext,
): Promise<LoginResult> {
  const proven = { user, amr: ["fed"], authTime, ifEnded: "oauth_failed" } as const;
  return completeLogin(deps, proven, origin, context);
}

/** The session begins at the exchange: no token is stored. */
async function makeCode(
  deps: OAuthDeps,
  { account, authTime, codeChallenge }: { account: Account } & Pick<OAuthCode, "authTime" | "codeChallenge">,
): Promise<OneTimeCode> {
  const { id: userId, sessionEpoch } = account;
  const code = newHandle(deps.randomBytes);
  const codeHash = handleHash(code);
  if (codeHash === undefined) throw new Error("the generated code has an invalid format");
  const expiresAt = new Date(deps.now().getTime() + CODE_LIFETIME_MS);
  const facts = { codeHash, codeChallenge, userId, sessionEpoch, authTime, expiresAt };
  await insertCode(deps.sql, facts);
  return { kind: "oneTimeCode", code, userId };
}
