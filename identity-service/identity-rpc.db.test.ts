import { afterAll, beforeAll, expect, test } from "vitest";
import type { Identity } from "#deploy/local/certificates.ts";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import {
  IdentityServiceClient,
  IdentityServiceService,
} from "#proto/gatehouse/identity/v1/identity_service.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates } from "#tests/support/system/certificates.ts";
import { ACCOUNT_CALLERS } from "./account-rpc.ts";
import { createIdentityRpc, IDENTITY_CALLERS } from "./identity-rpc.ts";
import { testDeps } from "./testing/test-deps.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterAll(() => database.drop());

const context = () => ({ ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" });
const REGISTRATION = {
  email: "anna@example.com",
  password: "Password123!",
  firstName: "Anna",
  lastName: "Smith",
  clientIp: "192.0.2.1",
  language: "de-AT",
  timeZone: "Europe/Vienna",
};

test("a registered user can log in and be looked up, and is the same each time", async () => {
  const deps = await testDeps(database.sql);
  const rpc = createIdentityRpc(deps);
  const { user } = await rpc.register(REGISTRATION, context());
  expect(user).toMatchObject({
    email: "anna@example.com",
    role: "USER",
    emailVerified: false,
    mfaEnabled: false,
    createdAt: deps.now(),
  });

  const attempt = {
    email: REGISTRATION.email,
    password: REGISTRATION.password,
    clientIp: "",
    userAgent: "",
    deviceToken: "",
  };
  const { result } = await rpc.login(attempt, context());
  expect(result).toMatchObject({ $case: "completed", value: { user, tokens: { accessToken: "access" } } });
  expect(JSON.stringify(result)).not.toContain("argon2");
  expect(await rpc.getUser({ userId: user?.id ?? "" }, context())).toEqual({
    user,
    hasPassword: true,
    hasTotp: false,
    credentialsProven: false,
  });
});

test.each(["", "me", "019a0000-0000-7000-8000-000000000000", "' or true --"])(
  "there is no user %j",
  async (userId) => {
    const rpc = createIdentityRpc(await testDeps(database.sql));
    await expect(rpc.getUser({ userId }, context())).rejects.toMatchObject({ code: "not_found" });
  },
);

test("without its database every call is unavailable, never wrong", async () => {
  const nowhere = connectTo(
    { host: "127.0.0.1", port: 1, username: "gatehouse_identity", password: "any" },
    "identity",
  );
  const rpc = createIdentityRpc(await testDeps(nowhere));
  const unavailable = { code: "service_unavailable", retryAfterMs: 1_000 };
  const attempt = {
    email: REGISTRATION.email,
    password: REGISTRATION.password,
    clientIp: "",
    userAgent: "",
    deviceToken: "",
  };
  await expect(rpc.register(REGISTRATION, context())).rejects.toMatchObject(unavailable);
  await expect(rpc.login(attempt, context())).rejects.toMatchObject(unavailable);
  const userId = "019a0000-0000-7000-8000-000000000000";
  await expect(rpc.getUser({ userId }, context())).rejects.toMatchObject(unavailable);
  await nowhere.end();
});

test("a refresh reuse reported by token-service puts a mail into the outbox", async () => {
  const deps = await testDeps(database.sql);
  const { user } = await createIdentityRpc(deps).register(
    { ...REGISTRATION, email: "ben@example.com" },
    context(),
  );
  const notice = {
    eventId: deps.newId(),
    userId: user?.id ?? "",
    occurredAt: deps.now(),
    ip: "203.0.113.7",
    userAgent: "curl/8.5.0",
  };
  const certificates = await createTestCertificates();
  const server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("identity-service"),
    logger: deps.logger,
    metrics: createMetrics("test"),
  });
  server.add(IdentityServiceService, IDENTITY_CALLERS, createIdentityRpc(deps));
  const address = `127.0.0.1:${await server.listen()}`;
  const notifyAs = async (name: Identity) => {
    const certificate = certificates.of(name);
    const client = createRpcClient(IdentityServiceClient, {
      address,
      service: "identity-service",
      certificate,
    });
    const budget = newCallContext({ budgetMs: 10_000 });
    return callUnary(client, client.notifyRefreshReuse, notice, budget).finally(() => client.close());
  };
  const outbox = () =>
    database.ownerSql`select id, recipient from mail_outbox where template = 'refresh-reuse'`;
  try {
    for (const stranger of ["gateway", "audit-service", "payments-service"] as const) {
      await expect(notifyAs(stranger)).rejects.toMatchObject({ code: "caller_not_allowed" });
    }
    expect(await outbox()).toEqual([]);
    expect(await notifyAs("token-service")).toEqual({});
    expect(await outbox()).toEqual([{ id: notice.eventId, recipient: "ben@example.com" }]);
  } finally {
    await server.close(0);
    await certificates.remove();
  }
});

test("only the gateway may act for end users, and each other service only what it reports", () => {
  expect(IDENTITY_CALLERS).toEqual({
    askApproval: ["gateway"],
    getApproval: ["gateway"],
    listPendingApprovals: ["gateway"],
    refuseApproval: ["gateway"],
    verifyApproval: ["gateway"],
    useApproval: ["gateway"],
    register: ["gateway"],
    login: ["gateway"],
    getUser: ["gateway"],
    notifyRefreshReuse: ["token-service"],
    notifyWebhookPaused: ["event-service"],
    completeMfaLogin: ["gateway"],
    listTrustedDevices: ["gateway"],
    removeTrustedDevice: ["gateway"],
    changePasswordAtLogin: ["gateway"],
    beginTotpEnrollment: ["gateway"],
    beginTotpEnrollmentAtLogin: ["gateway"],
    completeTotpEnrollmentAtLogin: ["gateway"],
    beginPasskeyRegistration: ["gateway"],
    registerPasskey: ["gateway"],
    beginPasskeyRegistrationAtLogin: ["gateway"],
    completePasskeyRegistrationAtLogin: ["gateway"],
    listPasskeys: ["gateway"],
    renamePasskey: ["gateway"],
    deletePasskey: ["gateway"],
    beginPasskeyLogin: ["gateway"],
    completePasskeyLogin: ["gateway"],
    confirmTotpEnrollment: ["gateway"],
    disableTotp: ["gateway"],
    regenerateRecoveryCodes: ["gateway"],
    beginStepUp: ["gateway"],
    completeStepUp: ["gateway"],
    ...ACCOUNT_CALLERS,
    listProviders: ["gateway"],
    beginOAuthLogin: ["gateway"],
    completeOAuthLogin: ["gateway"],
    exchangeOAuthCode: ["gateway"],
    listLinkedIdentities: ["gateway"],
    unlinkIdentity: ["gateway"],
    receiveSecurityEvent: ["gateway"],
  });
  expect(new Set(Object.values(ACCOUNT_CALLERS).flat())).toEqual(new Set(["gateway"]));
});
