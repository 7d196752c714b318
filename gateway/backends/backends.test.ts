import { afterAll, beforeAll, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { type Backends, guardedSessions, openBackends } from "./backends.ts";

let certificates: TestCertificates;
let sessions: Backends["sessions"];
let close: () => void;

beforeAll(async () => {
  certificates = await createTestCertificates();
  // Nobody listens there: whatever is asked over the network fails as unavailable.
  const address = "127.0.0.1:1";
  const opened = openBackends(
    { identity: address, token: address, audit: address, event: address },
    certificates.of("gateway"),
  );
  ({ sessions } = opened.backends);
  close = opened.close;
});
afterAll(async () => {
  close();
  await certificates.remove();
});

const context = () => newCallContext({ budgetMs: 300 });
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const plausible = [
  part({ alg: "EdDSA", typ: "rt+jwt", kid: "A".repeat(43) }),
  part({ gen: 1 }),
  Buffer.alloc(64, 1).toString("base64url"),
].join(".");
const refresh = (refreshToken: string) =>
  sessions.refreshSession(
    { refreshToken, ip: "192.0.2.1", userAgent: "", confirmation: undefined },
    context(),
  );

test("what cannot be a refresh token is refused without a call, what can be one is asked for", async () => {
  await expect(refresh("e30.e30.e30")).rejects.toMatchObject({ code: "refresh_token_invalid" });
  await expect(refresh(plausible)).rejects.toMatchObject({ code: "service_unavailable" });
});

test("the same where a refresh token proves a logout", async () => {
  await expect(sessions.proveRefreshToken({ refreshToken: "e30.e30.e30" }, context())).rejects.toMatchObject({
    code: "refresh_token_invalid",
  });
  await expect(sessions.proveRefreshToken({ refreshToken: plausible }, context())).rejects.toMatchObject({
    code: "service_unavailable",
  });
});

test("equal refreshes at the same moment are one call with one answer or failure; any other one is a call of its own", async () => {
  const asked: PromiseWithResolvers<{ tokens: undefined }>[] = [];
  const guarded = guardedSessions({
    ...sessions,
    refreshSession: () => {
      const call = Promise.withResolvers<{ tokens: undefined }>();
      asked.push(call);
      return call.promise;
    },
  });
  const one = { refreshToken: plausible, ip: "192.0.2.1", userAgent: "A", confirmation: undefined };
  const ask = (own: Partial<Parameters<typeof guarded.refreshSession>[0]> = {}) =>
    guarded.refreshSession({ ...one, ...own }, context());
  const answers = Promise.allSettled([ask(), ask(), ask()]);
  const others = Promise.all([
    ask({ ip: "192.0.2.2" }),
    ask({ userAgent: "B" }),
    ask({ confirmation: { jkt: "key", x5tS256: "" } }),
  ]);
  expect(asked).toHaveLength(4);
  for (const call of asked.slice(1)) call.resolve({ tokens: undefined });
  await others;
  asked[0]?.reject(new Error("away"));
  expect((await answers).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  const later = ask();
  expect(asked).toHaveLength(5);
  asked[4]?.resolve({ tokens: undefined });
  expect(await later).toEqual({ tokens: undefined });
});
