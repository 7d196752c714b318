import postgres from "postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Role } from "../proto/gen/gatehouse/token/v1/principal.ts";
import { newCallContext } from "../service-kit/call-context.ts";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { createIdentityRpc, IDENTITY_CALLERS } from "./identity-rpc.ts";
import { testDeps } from "./test-deps.ts";

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
};

test("who registers can log in and be looked up, and is the same user each time", async () => {
  const deps = await testDeps(database.sql);
  const rpc = createIdentityRpc(deps);
  const { user } = await rpc.register(REGISTRATION, context());
  expect(user).toMatchObject({
    email: "anna@example.com",
    role: Role.USER,
    emailVerified: false,
    mfaEnabled: false,
    createdAt: deps.now(),
  });

  const attempt = { email: REGISTRATION.email, password: REGISTRATION.password, clientIp: "", userAgent: "" };
  const { result } = await rpc.login(attempt, context());
  expect(result).toMatchObject({ $case: "completed", value: { user, tokens: { accessToken: "access" } } });
  expect(JSON.stringify(result)).not.toContain("argon2");
  expect(await rpc.getUser({ userId: user?.id ?? "" }, context())).toEqual({ user });
});

test.each(["", "me", "019a0000-0000-7000-8000-000000000000", "' or true --"])(
  "there is no user %j",
  async (userId) => {
    const rpc = createIdentityRpc(await testDeps(database.sql));
    await expect(rpc.getUser({ userId }, context())).rejects.toMatchObject({ code: "not_found" });
  },
);

test("without its database every call is unavailable, never wrong", async () => {
  const nowhere = postgres("postgres://gatehouse_identity@127.0.0.1:1/identity", {
    max: 1,
    connect_timeout: 1,
  });
  const rpc = createIdentityRpc(await testDeps(nowhere));
  const unavailable = { code: "service_unavailable", retryAfterMs: 1_000 };
  const attempt = { email: REGISTRATION.email, password: REGISTRATION.password, clientIp: "", userAgent: "" };
  await expect(rpc.register(REGISTRATION, context())).rejects.toMatchObject(unavailable);
  await expect(rpc.login(attempt, context())).rejects.toMatchObject(unavailable);
  const userId = "019a0000-0000-7000-8000-000000000000";
  await expect(rpc.getUser({ userId }, context())).rejects.toMatchObject(unavailable);
  await nowhere.end();
});

test("only the gateway may call", () => {
  expect(IDENTITY_CALLERS).toEqual({ register: ["gateway"], login: ["gateway"], getUser: ["gateway"] });
});
