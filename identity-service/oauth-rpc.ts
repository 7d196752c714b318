import type {
  BeginOAuthLoginRequest,
  CompleteOAuthLoginResponse,
  ExchangeOAuthCodeResponse,
  IdentityServiceServer,
  LinkedIdentity as ProtoIdentity,
  IdentityOwner as ProtoOwner,
} from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { type LinkedIdentity, listIdentities } from "./identities/external-identity-store.ts";
import type { CompletedLogin } from "./login/login.ts";
import { type RememberDeviceDeps, rememberDevice } from "./login/remember-device.ts";
import { type BeginOAuthLoginDeps, beginOAuthLogin } from "./oauth/begin-oauth-login.ts";
import { completeOAuthLogin, type OAuthResult } from "./oauth/complete-oauth-login.ts";
import { exchangeOAuthCode } from "./oauth/exchange-oauth-code.ts";
import type { IdentityOwner } from "./oauth/prove-owner.ts";
import { unlinkIdentity } from "./oauth/unlink-identity.ts";
import type { EndSessionsDeps } from "./sessions/end-sessions.ts";
import { encodeUser } from "./users/user-rpc.ts";

type OAuthMethods =
  | "listProviders"
  | "beginOAuthLogin"
  | "completeOAuthLogin"
  | "exchangeOAuthCode"
  | "listLinkedIdentities"
  | "unlinkIdentity";

/** Only the gateway acts for end users. */
export const OAUTH_CALLERS: Pick<Callers<IdentityServiceServer>, OAuthMethods> = {
  listProviders: ["gateway"],
  beginOAuthLogin: ["gateway"],
  completeOAuthLogin: ["gateway"],
  exchangeOAuthCode: ["gateway"],
  listLinkedIdentities: ["gateway"],
  unlinkIdentity: ["gateway"],
};

export type OAuthRpcDeps = BeginOAuthLoginDeps & EndSessionsDeps & RememberDeviceDeps;

/** The device that a login came from. */
interface Device {
  clientIp: string;
  userAgent: string;
  deviceToken: string;
}

/** The methods of IdentityService about identity providers. Holds no logic: decode, call, encode. */
export function createOAuthRpc(
  deps: OAuthRpcDeps,
): Pick<Implementation<IdentityServiceServer>, OAuthMethods> {
  const encodeLogin = async ({ tokens, user }: CompletedLogin, device: Device) => {
    const { clientIp, userAgent, deviceToken } = device;
    const nextToken = await rememberDevice(deps, { clientIp, userAgent, deviceToken, user });
    return { $case: "completed", value: { tokens, user: encodeUser(user), deviceToken: nextToken } } as const;
  };
  const encodeResult = async (
    result: OAuthResult,
    device: Device,
  ): Promise<CompleteOAuthLoginResponse["result"]> => {
    switch (result.kind) {
      case "completed":
        return encodeLogin(result.login, device);
      case "pending":
        return encodePending(result.pending);
      case "code":
        return { $case: "oneTimeCode", value: { code: result.code, userId: result.userId } };
      case "linked":
        return { $case: "linked", value: encodeIdentity(result.identity) };
      case "refused":
        return { $case: "errorCode", value: result.code };
    }
  };
  return {
    listProviders: async () => ({
      providers: [...deps.relyingParties.values()].map(({ name, displayName }) => ({ name, displayName })),
    }),
    beginOAuthLogin: (request, context) => beginOAuthLogin(deps, decodeBeginning(request), context),
    completeOAuthLogin: async (request, context) => {
      const { returnTo, result, endedSessionIds } = await completeOAuthLogin(deps, request, context);
      return { returnTo, result: await encodeResult(result, request), endedSessionIds: [...endedSessionIds] };
    },
    exchangeOAuthCode: async (request, context): Promise<ExchangeOAuthCodeResponse> => {
      const login = await exchangeOAuthCode(deps, request, context);
      return {
        result: "pending" in login ? encodePending(login.pending) : await encodeLogin(login, request),
      };
    },
    listLinkedIdentities: async ({ userId }) => ({
      identities: (await listIdentities(deps.sql, userId)).map(encodeIdentity),
    }),
    unlinkIdentity: async ({ owner, provider }, context) => ({
      endedSessionIds: [...(await unlinkIdentity(deps, { owner: decodeOwner(owner), provider }, context))],
    }),
  };
}

function encodePending({
  tempToken,
  methods,
  userId,
}: {
  tempToken: string;
  methods: readonly string[];
  userId: string;
}) {
  return { $case: "mfaChallenge" as const, value: { tempToken, methods: [...methods], userId } };
}

function encodeIdentity({ provider, email, linkedAt, userId }: LinkedIdentity): ProtoIdentity {
  return { provider, email: email ?? "", linkedAt, userId };
}

function decodeBeginning({ linkTo, ...request }: BeginOAuthLoginRequest) {
  return { ...request, linkTo: linkTo === undefined ? undefined : decodeOwner(linkTo) };
}

/** Without a time it would be no proof. */
function decodeOwner(owner: ProtoOwner | undefined): IdentityOwner {
  if (owner?.authTime === undefined)
    throw new DomainError("validation_failed", "owner and its auth_time are required");
  return { ...owner, authTime: owner.authTime };
}
