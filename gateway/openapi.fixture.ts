import type { DomainError } from "../service-kit/errors.ts";
import type { GatewayDeps } from "./app.ts";
import { ada, send, testGateway, tokens, USER_ID } from "./gateway.fixture.ts";
import type { OpenApiDocument } from "./openapi-document.ts";
import type { ManagedUser } from "./user-admin-client.ts";

/** `Authorization` of a service that may introspect. */
export const SERVICE_CREDENTIALS = "Basic c2VydmljZTpzZWNyZXQ=";

const managed: ManagedUser = { ...ada, status: "active", mustChangePassword: false };
const ended = { userId: USER_ID, endedSessionIds: [tokens.sessionId] };
const logins = [
  { tokens, user: ada, deviceToken: "device" },
  { pending: { tempToken: "temp", methods: ["totp", "recovery_code"], userId: USER_ID } },
  { passwordChange: { tempToken: "temp", userId: USER_ID } },
];
const time = ada.createdAt;
const call = {
  callId: USER_ID,
  occurredAt: time,
  actor: { userId: USER_ID, role: "USER", sessionId: tokens.sessionId, claimedEmail: ada.email },
  clientIp: "192.0.2.7",
  userAgent: "test",
  method: "POST",
  route: "/auth/login",
  resource: "",
  action: "auth.login",
  requestId: USER_ID,
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
};
const entries = [
  { id: "1", kind: "intent", ...call },
  {
    id: "2",
    kind: "outcome",
    ...call,
    outcome: "failure",
    errorCode: "busy",
    httpStatus: 503,
    latencyUs: 41,
  },
  { id: "3", kind: "event", ...call, actor: {}, outcome: "success", reason: "said so" },
] as const;

/** A gateway whose services answer, in turn, all that they can answer. */
export function answeringGateway() {
  let failing: DomainError | undefined;
  let turn = 0;
  const give = (...answers: unknown[]) => {
    return async () => {
      if (failing !== undefined) throw failing;
      turn += 1;
      // What each client's type asks for; the contract is checked on what the gateway makes of it.
      return answers[turn % answers.length] as never;
    };
  };
  const close = () => undefined;
  const services: Partial<GatewayDeps> = {
    identity: {
      register: give(ada),
      login: give(...logins),
      getUser: give(ada, { ...ada, mfaEnabled: true, recoveryCodesLeft: 9 }),
      close,
    },
    accounts: {
      verifyEmail: give(ada),
      resendVerification: give(undefined),
      forgotPassword: give(undefined),
      resetPassword: give(ended),
      changePassword: give(ended),
      changePasswordAtLogin: give(logins[0]),
      updateProfile: give(ada),
      deleteAccount: give(ended),
      changeEmail: give(undefined),
      confirmEmailChange: give(ada),
      undoEmailChange: give(ended),
      close,
    },
    mfa: {
      completeLogin: give(logins[0], logins[2]),
      beginEnrollment: give({ secret: "AB", otpauthUrl: "otpauth://totp/x", qrCode: "data:image/svg+xml,x" }),
      confirmEnrollment: give({ recoveryCodes: ["a", "b"], endedSessionIds: [] }),
      disable: give([]),
      regenerateRecoveryCodes: give(["a", "b"]),
      close,
    },
    users: {
      list: give({ users: [managed], nextCursor: null }, { users: [], nextCursor: "next" }),
      get: give(managed),
      setAccess: give({ user: managed, endedSessionIds: [] }),
      resetMfa: give([]),
      endSessions: give([tokens.sessionId]),
      delete: give([]),
      close,
    },
    sessions: {
      refresh: give(tokens),
      revoke: give(undefined),
      revokeAll: give([tokens.sessionId]),
      list: give([
        {
          id: tokens.sessionId,
          createdAt: time,
          lastUsedAt: time,
          expiresAt: time,
          ip: "::1",
          userAgent: "",
          amr: ["pwd"],
        },
      ]),
      close,
    },
    auditQuery: { search: give({ entries, nextCursor: null }, { entries: [], nextCursor: "next" }), close },
    jwks: { get: give({ json: '{"keys":[{"kty":"OKP","kid":"k","crv":"Ed25519","x":"AA"}]}', maxAgeS: 60 }) },
    introspectionClients: {
      authenticate: (header) => (header === SERVICE_CREDENTIALS ? "service" : undefined),
    },
  };
  const { app } = testGateway(services);
  return {
    app,
    /** What every service says from here on; undefined: it answers. */
    failWith: (error: DomainError | undefined) => {
      failing = error;
    },
    document: async (): Promise<OpenApiDocument> => (await send(app, { url: "/openapi.json" })).json(),
  };
}
