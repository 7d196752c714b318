import type { IdentityServiceServer } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { User as ProtoUser } from "../proto/gen/gatehouse/identity/v1/user.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { getUser } from "./get-user.ts";
import { type LoginDeps, login } from "./login.ts";
import { type NotifyDeps, notifyRefreshReuse } from "./notify-refresh-reuse.ts";
import { type RegisterDeps, register } from "./register.ts";
import { toProtoRole } from "./role-rpc.ts";
import type { User } from "./user.ts";

/** Only the gateway acts for end users; only token-service knows of their refresh tokens. */
export const IDENTITY_CALLERS: Callers<IdentityServiceServer> = {
  register: ["gateway"],
  login: ["gateway"],
  getUser: ["gateway"],
  notifyRefreshReuse: ["token-service"],
};

/** Adapts IdentityService to use cases. Holds no logic: decode, call, encode. */
export function createIdentityRpc(
  deps: RegisterDeps & LoginDeps & NotifyDeps,
): Implementation<IdentityServiceServer> {
  return {
    register: async (request, context) => ({
      user: encodeUser(await register(deps, request, context.deadlineMs)),
    }),
    login: async (request, context) => {
      const { tokens, user } = await login(deps, request, context);
      return { result: { $case: "completed", value: { tokens, user: encodeUser(user) } } };
    },
    getUser: async (request) => ({ user: encodeUser(await getUser(deps, request.userId)) }),
    notifyRefreshReuse: async (request) => {
      await notifyRefreshReuse(deps, request);
      return {};
    },
  };
}

function encodeUser(user: User): ProtoUser {
  return {
    id: user.id,
    email: user.email,
    firstName: user.firstName,
    lastName: user.lastName,
    role: toProtoRole(user.role),
    emailVerified: user.emailVerified,
    // There is no second factor yet.
    mfaEnabled: false,
    createdAt: user.createdAt,
  };
}
