import type { DomainError } from "../../service-kit/errors.ts";
import type { ManagedUser } from "../admin/user-admin-client.ts";
import type { GatewayDeps } from "../app.ts";
import { defaultLimitClasses, type LimitClasses } from "../limits/limit-class.ts";
import type { OpenApiDocument } from "../openapi/openapi-document.ts";
import { ada, send, testGateway, tokens, USER_ID } from "./test-gateway.ts";

/** `Authorization` of a service that may introspect. */
export const SERVICE_CREDENTIALS = "Basic c2VydmljZTpzZWNyZXQ=";

const BROWSER_TOKEN = "b".repeat(43);
/** `Cookie` of a browser that comes back from an identity provider. */
export const BROWSER_COOKIE = `gatehouse_oauth=${BROWSER_TOKEN}`;

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
  sequence: 7,
  receivedAt: time,
  producer: "gateway",
};
const entries = [
  { id: USER_ID, kind: "intent", ...call },
  {
    id: USER_ID,
    kind: "outcome",
    ...call,
    outcome: "failure",
    errorCode: "busy",
    httpStatus: 503,
    latencyUs: 41,
  },
  { id: USER_ID, kind: "event", ...call, sequence: null, actor: {}, outcome: "success", reason: "said so" },
] as const;
const proof = { leafData: "{}", leafHash: "AA==", inclusionProof: ["AA=="], checkpoint: "log\n7\nAA==\n" };
const identity = { provider: "demo", email: ada.email, linkedAt: time };
const returnTo = "https://app.example/signed-in";

/** A gateway whose services answer, in turn, all that they can answer; `overrides` are other parts of it. */
export function answeringGateway(overrides: Partial<GatewayDeps> = {}) {
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
    limitClasses: withoutLimits(),
    identity: {
      register: give(ada),
      login: give(...logins),
      getUser: give(ada, { ...ada, mfaEnabled: true, recoveryCodesLeft: 9 }),
      close,
    },
    accounts: {
      verifyEmail: give(ada),
      disownAccount: give(ended),
      resendVerification: give(undefined),
      forgotPassword: give(undefined),
      resetPassword: give(ended),
      changePassword: give(ended),
      changePasswordAtLogin: give(logins[0]),
      updateProfile: give(ada),
      deleteAccount: give(ended),
      changeEmail: give(undefined),
      confirmEmailChange: give(ada),
      endOwnSessions: give(ended),
      undoAccessChange: give(ended),
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
      prove: give({ userId: tokens.userId, sessionId: tokens.sessionId }),
      revoke: give(undefined),
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
    oauth: {
      listProviders: give([{ name: "demo", displayName: "Demo" }], []),
      begin: give(
        {
          authorizationUrl: "https://idp.example/a",
          browserToken: BROWSER_TOKEN,
          expiresInS: 600,
          isSecure: true,
        },
        {
          authorizationUrl: "http://idp.example/a",
          browserToken: BROWSER_TOKEN,
          expiresInS: 600,
          isSecure: false,
        },
      ),
      complete: give(
        { returnTo, result: logins[0], endedSessionIds: [tokens.sessionId] },
        { returnTo, result: logins[1], endedSessionIds: [] },
        { returnTo, result: { code: "code", userId: USER_ID }, endedSessionIds: [] },
        { returnTo, result: { linked: identity, userId: USER_ID }, endedSessionIds: [] },
        { returnTo, result: { refused: "link_required" }, endedSessionIds: [] },
      ),
      exchange: give(logins[0], logins[1]),
      listIdentities: give([identity, { provider: "other", linkedAt: time }], []),
      unlink: give([tokens.sessionId]),
      close,
    },
    auditQuery: {
      search: give({ entries, nextCursor: null }, { entries: [], nextCursor: "next" }),
      get: give({ entry: entries[1], proof }, { entry: entries[2], proof: null }),
      checkpoint: give({ checkpoint: proof.checkpoint, verifierKey: "log+00000000+AA" }),
      proveInclusion: give({ leafHash: "AA==", proof: ["AA=="] }, { leafHash: "AA==", proof: [] }),
      proveConsistency: give([], ["AA=="]),
      close,
    },
    jwks: { get: give({ json: '{"keys":[{"kty":"OKP","kid":"k","crv":"Ed25519","x":"AA"}]}', maxAgeS: 60 }) },
    introspectionClients: {
      authenticate: (header) => (header === SERVICE_CREDENTIALS ? "service" : undefined),
    },
  };
  const { app } = testGateway({ ...services, ...overrides });
  return {
    app,
    /** What every service says from here on; undefined: it answers. */
    failWith: (error: DomainError | undefined) => {
      failing = error;
    },
    document: async (): Promise<OpenApiDocument> => (await send(app, { url: "/openapi.json" })).json(),
  };
}

/** More calls than a test makes. */
function withoutLimits(): LimitClasses {
  const many = { calls: 1_000_000_000, perSeconds: 1 };
  const classes = Object.keys(defaultLimitClasses());
  return Object.fromEntries(
    classes.map((name) => [name, { address: many, user: many, total: many }]),
  ) as LimitClasses;
}
