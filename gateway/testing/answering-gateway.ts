import type { DomainError } from "#kit/values/errors.ts";
import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { StreamStatus } from "#proto/gatehouse/events/v1/signal_service.ts";
import { DeliveryState, EndpointStatus } from "#proto/gatehouse/events/v1/webhook_service.ts";
import { ClientStatus, CredentialKind } from "#proto/gatehouse/identity/v1/client_service.ts";
import type { SetUserAccessRequest, UserDetails } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { TotalIs, UserMailState, UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { SigningKeyState } from "#proto/gatehouse/token/v1/key_service.ts";
import { defaultLimitClasses, type LimitClasses } from "../limits/limit-class.ts";
import type { OpenApiDocument } from "../openapi/openapi-document.ts";
import { account, ada, completedLogin, send, testGateway, tokens, USER_ID } from "./test-gateway.ts";

/** `Authorization` of a service that may introspect. */
export const SERVICE_CREDENTIALS = "Basic c2VydmljZTpzZWNyZXQ=";

const BROWSER_TOKEN = "b".repeat(43);
/** `Cookie` after an identity provider. */
export const BROWSER_COOKIE = `gatehouse_oauth=${BROWSER_TOKEN}`;

const managed = {
  user: ada,
  status: UserStatus.ACTIVE,
  firstLoginAt: undefined,
  lastLoginAt: undefined,
  mustChangePassword: undefined as boolean | undefined,
};
const since = new Date("2026-03-01T10:00:00Z");
const details: UserDetails = {
  locked: true,
  lockedUntil: since,
  totpSince: since,
  passkeys: [{ id: USER_ID, name: "Phone", createdAt: since, lastUsedAt: since }],
  recoveryCodesLeft: 9,
  providers: [{ provider: "demo", linkedAt: since }],
  trustedDevices: 1,
  mails: [
    { template: "verify-email", createdAt: since, state: UserMailState.SENT, endedAt: since, attempts: 1 },
  ],
};
const [some, about] = [
  { count: 3, isEstimate: false },
  { count: 12_000_000, isEstimate: true },
];
const figures = {
  countedAt: since,
  users: about,
  newInWeek: some,
  active: about,
  withSecondFactor: some,
  withPasskey: some,
  mailsWaiting: some,
  mailsFailed: some,
};
const ended = { userId: USER_ID, endedSessionIds: [tokens.sessionId] };
const noneEnded = { endedSessionIds: [] };
const leftClients = {
  clients: [true, false].map((active) => ({ id: tokens.sessionId, name: "Shop", active })),
};
const user = { user: ada };
const mfaChallenge = { tempToken: "temp", methods: ["totp", "recovery_code"], userId: USER_ID };
const mfaChallengeOfPasskey = () => ({
  ...mfaChallenge,
  methods: ["passkey", "recovery_code"],
  passkeyOptionsJson: JSON.stringify(requestOptions),
});
const passwordChange = { tempToken: "temp", userId: USER_ID };
const mfaEnrollment = { tempToken: "temp", methods: ["totp"], userId: USER_ID };
const enrollment = { secret: "AB", otpauthUrl: "otpauth://totp/x", qrCode: "data:image/svg+xml,x" };
const { result } = completedLogin("device");
const logins = [
  { result },
  { result: { $case: "mfaChallenge", value: mfaChallenge } },
  { result: { $case: "passwordChange", value: passwordChange } },
  { result: { $case: "mfaEnrollment", value: mfaEnrollment } },
] as const;
const time = ada.createdAt;
const CLIENT_ID = "0199a000-0000-7000-8000-00000000000c";
const grantedClient = { clientId: CLIENT_ID, credentialId: "0199a000-0000-7000-8000-00000000000d" };
export const machineClient = {
  id: CLIENT_ID,
  name: "Shop",
  ownerUserId: USER_ID,
  permissions: ["payments:read"],
  status: ClientStatus.ACTIVE,
  createdAt: time,
  changedAt: time,
  credentials: [],
};
export const endpoint = {
  id: CLIENT_ID,
  kind: "webhook",
  clientId: "",
  name: "Tickets",
  url: "https://tickets.example/hook",
  types: ["gatehouse.user.*"],
  ownerUserId: USER_ID,
  status: EndpointStatus.ACTIVE,
  pausedReason: "",
  failingSince: undefined,
  waiting: 0,
  formerSecretUntil: undefined,
  createdAt: time,
  changedAt: time,
};
const pausedEndpoint = {
  ...endpoint,
  ...{ ownerUserId: "", status: EndpointStatus.PAUSED, pausedReason: "failing", waiting: 3 },
  ...{ failingSince: time, formerSecretUntil: time },
};
export const stream = {
  ...{
    id: endpoint.id,
    clientId: USER_ID,
    pushUrl: "https://receiver.example/events",
    description: "Fraud detection",
  },
  eventsRequested: ["https://schemas.openid.net/secevent/caep/event-type/session-revoked", "urn:other"],
  eventsDelivered: ["https://schemas.openid.net/secevent/caep/event-type/session-revoked"],
  eventsSupported: ["https://schemas.openid.net/secevent/caep/event-type/session-revoked"],
  ...{ status: StreamStatus.ENABLED, statusReason: "" },
};
const pausedStream = { ...stream, pushUrl: "", status: StreamStatus.PAUSED, statusReason: "failing" };
const delivery = {
  eventId: USER_ID,
  place: { log: 0, sequence: 17 },
  type: "gatehouse.user.password_changed.v1",
  subject: USER_ID,
  state: DeliveryState.DELIVERED,
  attempts: 1,
  httpStatus: 204,
  problem: "",
  attemptedAt: time,
  durationMs: 12,
  nextAttemptAt: undefined,
};
const waitingDelivery = {
  ...delivery,
  ...{ subject: "", state: DeliveryState.WAITING, attempts: 0, httpStatus: 0, durationMs: 0 },
  ...{ attemptedAt: undefined, nextAttemptAt: time },
};
export const clientCredential = {
  id: grantedClient.credentialId,
  kind: CredentialKind.API_KEY,
  name: "",
  keyId: "gh_00",
  createdAt: time,
  lastUsedAt: undefined,
};
const intent: Entry = {
  id: USER_ID,
  kind: EntryKind.INTENT,
  callId: USER_ID,
  occurredAt: time,
  actor: {
    userId: USER_ID,
    role: "USER",
    sessionId: tokens.sessionId,
    claimedEmail: ada.email,
    claimedEmailHash: "ab",
  },
  clientIp: "192.0.2.7",
  userAgent: "test",
  method: "POST",
  route: "/auth/login",
  resource: "",
  action: "auth.login",
  requestId: USER_ID,
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  outcome: Outcome.UNSPECIFIED,
  errorCode: "",
  httpStatus: 0,
  latencyUs: 0,
  reason: "",
  sequence: 7,
  receivedAt: time,
  producer: "gateway",
  log: 0,
};
const failed = { outcome: Outcome.FAILURE, errorCode: "busy", httpStatus: 503, latencyUs: 41 };
const happened = { outcome: Outcome.SUCCESS, reason: "said so", sequence: 0, actor: undefined };
const outcome: Entry = { ...intent, kind: EntryKind.OUTCOME, ...failed };
const event: Entry = { ...intent, kind: EntryKind.EVENT, ...happened };
const hash = Buffer.of(0);
const proof = { leafData: Buffer.from("{}"), leafHash: hash, inclusionProof: [hash] };
const unproven = { leafData: Buffer.of(), leafHash: Buffer.of(), inclusionProof: [], checkpoint: "" };
const checkpoint = "log\n7\nAA==\n";
const noted = { ...proof, checkpoint };
const identity = { provider: "demo", email: ada.email, linkedAt: time, userId: USER_ID };
const departure = { authorizationUrl: "https://idp.example/a", browserToken: BROWSER_TOKEN, expiresInS: 600 };
export const passkey = {
  id: USER_ID,
  name: "My phone",
  createdAt: time,
  lastUsedAt: undefined,
  backedUp: false,
  transports: ["internal"],
};
const trustedDevice = {
  id: USER_ID,
  createdAt: time,
  lastUsedAt: time,
  expiresAt: time,
  clientIp: "::1",
  userAgent: "",
};
const credential = { id: "AAAA", type: "public-key", transports: ["internal"] };
export const creationOptions = {
  challenge: "A".repeat(43),
  rp: { id: "example.com", name: "Gatehouse" },
  user: { id: "AAAA", name: ada.email, displayName: "Ada Lovelace" },
  pubKeyCredParams: [{ alg: -8, type: "public-key" }],
  timeout: 300_000,
  attestation: "none",
  excludeCredentials: [credential],
  authenticatorSelection: {
    residentKey: "required",
    requireResidentKey: true,
    userVerification: "required",
  },
  extensions: { credProps: true },
  hints: [],
};
export const requestOptions = {
  challenge: "A".repeat(43),
  rpId: "example.com",
  allowCredentials: [credential],
  timeout: 300_000,
  userVerification: "required",
};
const stepUp = { stepUpToken: "step-up", expiresInS: 300 };
const approval = {
  transaction: '{"fields":{"/amount":12500},"method":"POST","route":"/payments","session":"s","user":"u"}',
  ...{ sessionId: USER_ID, createdAt: time, expiresAt: time },
};
const returnTo = "https://app.example/signed-in";

type Give = (...answers: unknown[]) => () => Promise<never>;

function accountAnswers(give: Give) {
  return {
    register: give(user),
    login: give(...logins, { result: { $case: "mfaChallenge", value: mfaChallengeOfPasskey() } }),
    getUser: give(account, {
      user: { ...ada, mfaEnabled: true },
      recoveryCodesLeft: 9,
      hasTotp: true,
      totpSince: new Date(),
      hasPassword: true,
      credentialsProven: true,
    }),
    checkLink: give({ email: ada.email, isVouched: true }, { email: "", isVouched: false }),
    verifyEmail: give(user),
    disownAccount: give(ended),
    resendVerification: give({}),
    forgotPassword: give({}),
    resetPassword: give(ended),
    changePassword: give(ended),
    changePasswordAtLogin: give({ result: { result } }, { result: logins[3] }),
    updateProfile: give(user),
    deleteAccount: give(ended),
    changeEmail: give({}),
    confirmEmailChange: give({ ...user, endedSessionIds: [] }),
    endOwnSessions: give(ended),
    undoAccessChange: give(ended),
    undoEmailChange: give(ended),
  };
}

function factorAnswers(give: Give) {
  return {
    completeMfaLogin: give(
      { result: { result } },
      { result: { result: { $case: "passwordChange", value: passwordChange } } },
    ),
    beginTotpEnrollment: give(enrollment),
    beginTotpEnrollmentAtLogin: give({ ...enrollment, userId: USER_ID }),
    completeTotpEnrollmentAtLogin: give({ result: { result }, recoveryCodes: ["a", "b"] }),
    confirmTotpEnrollment: give({ recoveryCodes: ["a", "b"], ...noneEnded }),
    disableTotp: give(noneEnded),
    getApproval: give(
      {
        ...approval,
        state: "pending",
        methods: ["passkey", "totp"],
        passkeyOptionsJson: JSON.stringify(requestOptions),
      },
      { ...approval, state: "used", methods: [] },
    ),
    listPendingApprovals: give(
      { approvals: [{ ...approval, approvalId: USER_ID, state: "pending" }] },
      { approvals: [] },
    ),
    refuseApproval: give({}),
    verifyApproval: give(
      { approvalId: USER_ID, method: "totp", expiresInS: 240 },
      { approvalId: USER_ID, method: "passkey", expiresInS: 240 },
    ),
    regenerateRecoveryCodes: give({ recoveryCodes: ["a", "b"] }),
    beginStepUp: give(
      { ...stepUp, methods: ["totp", "recovery_code"], passkeyOptionsJson: "" },
      { ...stepUp, methods: ["passkey"], passkeyOptionsJson: JSON.stringify(requestOptions) },
    ),
    completeStepUp: give({ accessToken: "a.b.c", expiresInS: 900, acr: "urn:gatehouse:acr:2" }),
    listTrustedDevices: give({ trustedDevices: [trustedDevice] }, { trustedDevices: [] }),
    removeTrustedDevice: give({}),
    listProviders: give({ providers: [{ name: "demo", displayName: "Demo" }] }, { providers: [] }),
    beginOAuthLogin: give({ ...departure, isSecure: true }, { ...departure, isSecure: false }),
    completeOAuthLogin: give(
      { returnTo, ...logins[0], endedSessionIds: [tokens.sessionId] },
      { returnTo, ...logins[1], ...noneEnded },
      {
        returnTo,
        result: { $case: "oneTimeCode", value: { code: "code", userId: USER_ID } },
        ...noneEnded,
      },
      { returnTo, result: { $case: "linked", value: identity }, ...noneEnded },
      { returnTo, result: { $case: "errorCode", value: "link_required" }, ...noneEnded },
    ),
    exchangeOAuthCode: give(logins[0], logins[1], logins[3]),
    listLinkedIdentities: give(
      { identities: [identity, { ...identity, provider: "other", email: "" }] },
      { identities: [] },
    ),
    unlinkIdentity: give({ endedSessionIds: [tokens.sessionId] }),
    receiveSecurityEvent: give({ endedSessionIds: [tokens.sessionId] }),
    beginPasskeyRegistration: give({ optionsJson: JSON.stringify(creationOptions) }),
    registerPasskey: give(
      { passkey, recoveryCodes: ["a", "b"], ...noneEnded },
      { passkey, recoveryCodes: [], ...ended },
    ),
    beginPasskeyRegistrationAtLogin: give({
      optionsJson: JSON.stringify(creationOptions),
      userId: USER_ID,
    }),
    completePasskeyRegistrationAtLogin: give({ result: { result }, recoveryCodes: ["a", "b"], passkey }),
    listPasskeys: give({ passkeys: [passkey, { ...passkey, lastUsedAt: time }] }, { passkeys: [] }),
    renamePasskey: give({ passkey }),
    deletePasskey: give({ endedSessionIds: [tokens.sessionId] }),
    beginPasskeyLogin: give({ challengeToken: "token", optionsJson: JSON.stringify(requestOptions) }),
    completePasskeyLogin: give({ result: { result } }),
  };
}

function administrationAnswers(give: Give) {
  return {
    users: {
      listUsers: give(
        { users: [managed], nextCursor: "", total: 1, totalIs: TotalIs.EXACT },
        { users: [], nextCursor: "next", total: 0, totalIs: TotalIs.UNSPECIFIED },
      ),
      getManagedUser: give({ user: managed, details }),
      getUserFigures: give(figures),
      setUserAccess: async ({ mustChangePassword, role }: SetUserAccessRequest) =>
        give({
          user: { ...managed, mustChangePassword, user: { ...managed.user, role: role || "USER" } },
          ...noneEnded,
          clients: leftClients,
        })(),
      resetUserMfa: give(noneEnded),
      removeUserPasskey: give(noneEnded),
      unlockUser: give({}),
      inviteUser: give({ user: managed }),
      mailUser: give({}),
      endUserSessions: give({ endedSessionIds: [tokens.sessionId] }),
      deleteUser: give({ ...noneEnded, clients: leftClients }, { ...noneEnded, clients: { clients: [] } }),
    },
    clients: {
      grantClientToken: give({
        ...grantedClient,
        accessToken: "e30.e30.e30",
        expiresInS: 900,
        scope: "payments:read",
      }),
      authenticateClient: give(grantedClient),
    },
    clientAdmin: {
      listClients: give({ clients: [machineClient], nextCursor: "" }, { clients: [], nextCursor: "next" }),
      getClient: give({ client: { ...machineClient, credentials: [clientCredential] } }),
      createClient: give({ client: machineClient }),
      changeClient: give({ client: { ...machineClient, ownerUserId: "", status: ClientStatus.DISABLED } }),
      deleteClient: give({}),
      addClientCredential: give(
        { credential: clientCredential, secret: "gh_key" },
        { credential: { ...clientCredential, keyId: "", lastUsedAt: time }, secret: "" },
      ),
      revokeClientCredential: give({}),
    },
    webhooks: {
      listEndpoints: give({ endpoints: [endpoint], nextCursor: "" }, { endpoints: [], nextCursor: "next" }),
      getEndpoint: give({ endpoint }),
      createEndpoint: give({ endpoint, secret: "whsec_AAAA" }),
      changeEndpoint: give({ endpoint: pausedEndpoint }),
      deleteEndpoint: give({}),
      rotateSecret: give({ endpoint: pausedEndpoint, secret: "whsec_AAAA" }),
      sendTest: give(
        { httpStatus: 204, problem: "", durationMs: 12 },
        { httpStatus: 0, problem: "unreachable", durationMs: 5_000 },
      ),
      replayEvents: give({ endpoint }),
      listDeliveries: give({ deliveries: [delivery, waitingDelivery], nextCursor: "" }),
    },
    signals: {
      getStream: give({ stream }, { stream: pausedStream }),
      createStream: give({ stream }),
      changeStream: give({ stream }, { stream: pausedStream }),
      deleteStream: give({}),
      setStreamStatus: give({ stream }, { stream: pausedStream }),
      verifyStream: give({}),
      pollStream: give(
        { tokens: [{ jti: stream.id, token: "e30.e30.e30" }], moreAvailable: true },
        { tokens: [], moreAvailable: false },
      ),
    },
  };
}

function tokenAnswers(give: Give) {
  return {
    sessions: {
      revokeClientTokens: give({ sequence: 1 }),
      refreshSession: give({ tokens }),
      proveRefreshToken: give({ userId: tokens.userId, sessionId: tokens.sessionId }),
      proveDevice: give({ sessionId: tokens.sessionId, cookie: "1.mac", expiresInS: 120, challenge: "" }),
      revokeSession: give({ sequence: 1 }),
      listSessions: give({
        sessions: [
          {
            id: tokens.sessionId,
            createdAt: time,
            lastUsedAt: time,
            expiresAt: time,
            ip: "::1",
            userAgent: "",
            amr: ["pwd"],
          },
        ],
      }),
    },
    keys: {
      listSigningKeys: give(
        {
          keys: [
            {
              keyId: "k",
              algorithm: "EdDSA",
              state: SigningKeyState.ACTIVE,
              createdAt: since,
              activatedAt: since,
              retiredAt: undefined,
            },
          ],
        },
        { keys: [] },
      ),
    },
  };
}

function auditAnswers(give: Give) {
  return {
    searchEntries: give(
      { entries: [intent, outcome, event], nextCursor: "" },
      { entries: [], nextCursor: "next" },
    ),
    followEntries: give(
      {
        entries: [intent, outcome, event],
        nextAfterSequence: 3,
        size: 3,
        next: [
          { log: 0, sequence: 3 },
          { log: 1, sequence: 9 },
        ],
        hasMore: true,
        away: [],
      },
      { entries: [], nextAfterSequence: 0, size: 0, next: [], hasMore: false, away: [] },
    ),
    summarizeLogins: give(
      {
        from: time,
        to: time,
        buckets: [{ start: time, logins: 4, failures: 1 }],
        refusals: [{ reason: "wrong_password", count: 1 }],
        openIntents: 1,
        oldestOpenIntent: time,
        countedUpTo: 3,
        size: 3,
      },
      {
        from: time,
        to: time,
        buckets: [],
        refusals: [],
        openIntents: 0,
        oldestOpenIntent: undefined,
        countedUpTo: 0,
        size: 0,
      },
    ),
    getEntry: give(
      { entry: outcome, ...proof, checkpoint, noted: undefined },
      { entry: { ...outcome, log: 1 }, ...proof, checkpoint, noted },
      { entry: event, ...unproven, noted: undefined },
    ),
    getCheckpoint: give({ checkpoint, verifierKey: "log+00000000+AA", logs: [0, 1] }),
    proveInclusion: give({ leafHash: hash, proof: [hash] }, { leafHash: hash, proof: [] }),
    proveConsistency: give({ proof: [] }, { proof: [hash] }),
  };
}

/** Its services return all their answers in turn. `overrides` replace other parts. */
export function answeringGateway(overrides: Parameters<typeof testGateway>[0] = {}) {
  let failing: DomainError | undefined;
  let turn = 0;
  const give: Give = (...answers) => {
    return async () => {
      if (failing !== undefined) throw failing;
      turn += 1;
      // The contract is checked on the gateway's answers.
      return answers[turn % answers.length] as never;
    };
  };
  const services: Parameters<typeof testGateway>[0] = {
    limitClasses: withoutLimits(),
    identity: { ...accountAnswers(give), ...factorAnswers(give) },
    ...administrationAnswers(give),
    ...tokenAnswers(give),
    auditQuery: auditAnswers(give),
    jwks: { get: give({ json: '{"keys":[{"kty":"OKP","kid":"k","crv":"Ed25519","x":"AA"}]}', maxAgeS: 60 }) },
    introspectionClients: {
      authenticate: (header) => (header === SERVICE_CREDENTIALS ? "service" : undefined),
    },
  };
  const { app } = testGateway({ ...services, ...overrides });
  return {
    app,
    /** Every service fails with it; undefined ends that. */
    failWith: (error: DomainError | undefined) => {
      failing = error;
    },
    document: async (): Promise<OpenApiDocument> => (await send(app, { url: "/openapi.json" })).json(),
  };
}

function withoutLimits(): LimitClasses {
  const many = { calls: 1_000_000_000, perSeconds: 1 };
  const classes = Object.keys(defaultLimitClasses());
  return Object.fromEntries(
    classes.map((name) => [name, { address: many, user: many, total: many }]),
  ) as LimitClasses;
}
