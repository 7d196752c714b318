import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { TestLoginServiceServer } from "#proto/gatehouse/identity/v1/test_login_service.ts";
import { logInAs } from "./login/log-in-as.ts";
import type { LoginDeps } from "./login/login-deps.ts";

/** Not the gateway: nobody asks for it over HTTP. */
export const TEST_LOGIN_CALLERS: Callers<TestLoginServiceServer> = { logInAs: ["operator"] };

/** To be served with `TEST_LOGINS` only. */
export function createTestLoginRpc(deps: LoginDeps): Implementation<TestLoginServiceServer> {
  return {
    logInAs: async ({ user, level }, context) => {
      const { accessToken, refreshToken, ...session } = await logInAs(deps, { user, level }, context);
      const { expiresInS, sessionId, userId } = session;
      return { accessToken, refreshToken, expiresInS, sessionId, userId };
    },
  };
}
