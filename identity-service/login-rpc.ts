import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type {
  CompletedLogin,
  IdentityServiceServer,
  MfaChallenge,
  MfaEnrollmentChallenge,
  PasswordChangeChallenge,
} from "#proto/gatehouse/identity/v1/identity_service.ts";
import { changePasswordAtLogin } from "./login/change-password-at-login.ts";
import { completeMfaLogin } from "./login/complete-mfa-login.ts";
import { beginTotpEnrollmentAtLogin, completeTotpEnrollmentAtLogin } from "./login/enroll-at-login.ts";
import { logIn } from "./login/log-in.ts";
import type { LoginDeps } from "./login/login-deps.ts";
import type { LoginResult } from "./login/login-result.ts";
import { optionsJson } from "./passkeys/passkey-ceremony.ts";
import { encodeUser } from "./users/user-rpc.ts";

export const LOGIN_CALLERS = {
  login: ["gateway"],
  completeMfaLogin: ["gateway"],
  changePasswordAtLogin: ["gateway"],
  beginTotpEnrollmentAtLogin: ["gateway"],
  completeTotpEnrollmentAtLogin: ["gateway"],
} as const satisfies Partial<Callers<IdentityServiceServer>>;

export function createLoginRpc(
  deps: LoginDeps,
): Pick<Implementation<IdentityServiceServer>, keyof typeof LOGIN_CALLERS> {
  return {
    login: async (request, context) => ({ result: encodeLoginResult(await logIn(deps, request, context)) }),
    completeMfaLogin: async (request, context) => ({
      result: { result: encodeLoginResult(await completeMfaLogin(deps, request, context)) },
    }),
    changePasswordAtLogin: async (request, context) => ({
      result: { result: encodeLoginResult(await changePasswordAtLogin(deps, request, context)) },
    }),
    beginTotpEnrollmentAtLogin: ({ tempToken }) => beginTotpEnrollmentAtLogin(deps, tempToken),
    completeTotpEnrollmentAtLogin: async (request, context) => {
      const { recoveryCodes, ...login } = await completeTotpEnrollmentAtLogin(deps, request, context);
      return { result: { result: encodeLoginResult(login) }, recoveryCodes };
    },
  };
}

type EncodedResult =
  | { $case: "completed"; value: CompletedLogin }
  | { $case: "mfaChallenge"; value: MfaChallenge }
  | { $case: "passwordChange"; value: PasswordChangeChallenge }
  | { $case: "mfaEnrollment"; value: MfaEnrollmentChallenge };

export function encodeLoginResult(result: LoginResult): EncodedResult {
  switch (result.kind) {
    case "completed": {
      const { kind, user, ...value } = result;
      return { $case: kind, value: { ...value, user: encodeUser(user) } };
    }
    case "mfaChallenge": {
      const { kind, methods, passkey, ...value } = result;
      const passkeyOptionsJson = passkey && optionsJson(passkey);
      return { $case: kind, value: { ...value, methods: [...methods], passkeyOptionsJson } };
    }
    case "mfaEnrollment": {
      const { kind, methods, ...value } = result;
      return { $case: kind, value: { ...value, methods: [...methods] } };
    }
    case "passwordChange": {
      const { kind, ...value } = result;
      return { $case: kind, value };
    }
  }
}
