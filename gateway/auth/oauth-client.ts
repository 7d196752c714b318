import {
  type CompletedLogin as CompletedLoginMessage,
  type CompleteOAuthLoginResponse,
  IdentityServiceClient,
  type LinkedIdentity as LinkedIdentityMessage,
  type MfaChallenge,
} from "../../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { type ErrorCode, isErrorCode } from "../../service-kit/errors.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";
import { type CompletedLogin, type PendingLogin, toCompletedLogin } from "./identity-client.ts";

/** An identity provider. */
export interface IdentityProvider {
  name: string;
  displayName: string;
}

/** What a browser keeps while it is away, and whether only our origin can have set it. */
export interface BrowserToken {
  browserToken: string;
  isBrowserTokenSecure: boolean;
}

/** A logged-in user, and what proves once more that it is them. */
export interface IdentityOwner {
  userId: string;
  sessionId: string;
  authTime: Date;
  /** Empty if none was given. */
  password: string;
  clientIp: string;
  userAgent: string;
}

export interface OAuthBeginning extends BrowserToken {
  provider: string;
  /** Empty: the first of the configured ones. */
  returnTo: string;
  /** Empty: tokens, no code. */
  codeChallenge: string;
  /** Undefined: a login. */
  linkTo: IdentityOwner | undefined;
  clientIp: string;
  /** The device token that an earlier login issued. May be empty. */
  deviceToken: string;
}

/** The way to the provider. */
export interface OAuthDeparture {
  authorizationUrl: string;
  browserToken: string;
  expiresInS: number;
  /** Whether users reach us over HTTPS. */
  isSecure: boolean;
}

export interface OAuthArrival extends BrowserToken {
  provider: string;
  code: string;
  state: string;
  iss: string;
  error: string;
  clientIp: string;
  userAgent: string;
  deviceToken: string;
}

export type LoginResult = CompletedLogin | { pending: PendingLogin };

/** What a login at a provider came to. */
export type OAuthResult =
  | LoginResult
  | { code: string; userId: string }
  | { linked: LinkedIdentity; userId: string }
  | { refused: ErrorCode };

/** Where the browser goes on, with what. */
export interface OAuthCompletion {
  returnTo: string;
  result: OAuthResult;
  /** The sessions of an account that the login has claimed. */
  endedSessionIds: readonly string[];
}

/** An account at a provider that opens the user's own. */
export interface LinkedIdentity {
  provider: string;
  email?: string;
  linkedAt: Date;
}

/** The gateway's view of logins at identity providers. Every call throws what identity-service says, as a DomainError. */
export interface OAuthClient {
  listProviders(context: CallContext): Promise<IdentityProvider[]>;
  begin(beginning: OAuthBeginning, context: CallContext): Promise<OAuthDeparture>;
  complete(arrival: OAuthArrival, context: CallContext): Promise<OAuthCompletion>;
  exchange(
    request: { code: string; codeVerifier: string; clientIp: string; userAgent: string; deviceToken: string },
    context: CallContext,
  ): Promise<LoginResult>;
  listIdentities(userId: string, context: CallContext): Promise<LinkedIdentity[]>;
  /** @returns the ids of the sessions that ended. */
  unlink(which: { owner: IdentityOwner; provider: string }, context: CallContext): Promise<readonly string[]>;
  close(): void;
}

/** @param address `host:port` of identity-service. */
export function createOAuthClient(address: string, certificate: ProcessCertificate): OAuthClient {
  const client = createRpcClient(IdentityServiceClient, {
    address,
    service: "identity-service",
    certificate,
    idempotentMethods: ["gatehouse.identity.v1.IdentityService/ListProviders"],
  });
  return {
    async listProviders(context) {
      const { providers } = await callUnary(client, client.listProviders, {}, context);
      return providers.map(({ name, displayName }) => ({ name, displayName }));
    },
    begin: (beginning, context) => callUnary(client, client.beginOAuthLogin, beginning, context),
    async complete(arrival, context) {
      const answer = await callUnary(client, client.completeOAuthLogin, arrival, context);
      const { returnTo, result, endedSessionIds } = answer;
      return { returnTo, result: toResult(result), endedSessionIds };
    },
    async exchange(request, context) {
      const { result } = await callUnary(client, client.exchangeOAuthCode, request, context);
      return toLogin(result);
    },
    async listIdentities(userId, context) {
      const { identities } = await callUnary(client, client.listLinkedIdentities, { userId }, context);
      return identities.map(toIdentity);
    },
    async unlink(which, context) {
      const { endedSessionIds } = await callUnary(client, client.unlinkIdentity, which, context);
      return endedSessionIds;
    },
    close: () => client.close(),
  };
}

type LoginMessage =
  | { $case: "completed"; value: CompletedLoginMessage }
  | { $case: "mfaChallenge"; value: MfaChallenge };

function toLogin(result: LoginMessage | undefined): LoginResult {
  if (result?.$case === "mfaChallenge") return { pending: result.value };
  // A result that this version does not know means: not logged in.
  return toCompletedLogin(result?.value);
}

function toResult(result: CompleteOAuthLoginResponse["result"]): OAuthResult {
  switch (result?.$case) {
    case "completed":
    case "mfaChallenge":
      return toLogin(result);
    case "oneTimeCode":
      return { code: result.value.code, userId: result.value.userId };
    case "linked":
      return { linked: toIdentity(result.value), userId: result.value.userId };
    case "errorCode":
      return { refused: isErrorCode(result.value) ? result.value : "oauth_failed" };
    default:
      return { refused: "oauth_failed" };
  }
}

function toIdentity({ provider, email, linkedAt }: LinkedIdentityMessage): LinkedIdentity {
  if (linkedAt === undefined)
    throw new Error("identity-service sent an identity that this gateway cannot read");
  return { provider, ...(email !== "" && { email }), linkedAt };
}
