import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type {
  BeginOAuthLoginRequest,
  CompleteOAuthLoginResponse,
  IdentityServiceServer,
  LinkedIdentity as ProtoIdentity,
} from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { LinkedIdentity } from "./identities/external-identity-store.ts";
import { encodeLoginResult } from "./login-rpc.ts";
import { beginOAuthLogin, listProviders, type OAuthDeps } from "./oauth/begin-oauth-login.ts";
import { completeOAuthLogin, type OAuthResult } from "./oauth/complete-oauth-login.ts";
import { exchangeOAuthCode } from "./oauth/exchange-oauth-code.ts";
import { receiveSecurityEvent } from "./oauth/receive-security-event.ts";
import { listLinkedIdentities, unlinkIdentity } from "./oauth/unlink-identity.ts";
import { decodeOwner } from "./passwords/prove-owner.ts";

export const OAUTH_CALLERS = {
  listProviders: ["gateway"],
  beginOAuthLogin: ["gateway"],
  completeOAuthLogin: ["gateway"],
  exchangeOAuthCode: ["gateway"],
  listLinkedIdentities: ["gateway"],
  unlinkIdentity: ["gateway"],
  receiveSecurityEvent: ["gateway"],
} as const satisfies Partial<Callers<IdentityServiceServer>>;

export function createOAuthRpc(
  deps: OAuthDeps,
): Pick<Implementation<IdentityServiceServer>, keyof typeof OAUTH_CALLERS> {
  return {
    listProviders: async () => ({ providers: listProviders(deps) }),
    beginOAuthLogin: (request, context) => beginOAuthLogin(deps, decodeBeginning(request), context),
    completeOAuthLogin: async (request, context) => {
      const { returnTo, result, endedSessionIds } = await completeOAuthLogin(deps, request, context);
      return { returnTo, result: encodeResult(result), endedSessionIds: [...endedSessionIds] };
    },
    exchangeOAuthCode: async (request, context) => ({
      result: encodeLoginResult(await exchangeOAuthCode(deps, request, context)),
    }),
    listLinkedIdentities: async ({ userId }) => ({
      identities: (await listLinkedIdentities(deps, userId)).map(encodeIdentity),
    }),
    unlinkIdentity: async ({ owner, provider }, context) => ({
      endedSessionIds: [...(await unlinkIdentity(deps, { owner: decodeOwner(owner), provider }, context))],
    }),
    receiveSecurityEvent: async (pushed, context) => ({
      endedSessionIds: [...(await receiveSecurityEvent(deps, pushed, context))],
    }),
  };
}

function encodeResult(result: OAuthResult): CompleteOAuthLoginResponse["result"] {
  switch (result.kind) {
    case "oneTimeCode":
      return { $case: result.kind, value: { code: result.code, userId: result.userId } };
    case "linked":
      return { $case: result.kind, value: encodeIdentity(result.identity) };
    case "refused":
      return { $case: "errorCode", value: result.code };
    default:
      return encodeLoginResult(result);
  }
}

function encodeIdentity({ provider, email, linkedAt, userId }: LinkedIdentity): ProtoIdentity {
  return { provider, email: email ?? "", linkedAt, userId };
}

function decodeBeginning({ linkTo, ...request }: BeginOAuthLoginRequest) {
  return { ...request, linkTo: linkTo === undefined ? undefined : decodeOwner(linkTo) };
}
