import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import { DomainError } from "#kit/values/errors.ts";
import type {
  IssueSessionRequest,
  IssueSessionResponse,
  RevokeUserSessionsRequest,
  SessionServiceClient,
} from "#proto/gatehouse/token/v1/session_service.ts";
import { createTokenServiceClient, type NewSession } from "./token-service-client.ts";

const TOKENS = {
  accessToken: "a",
  refreshToken: "r",
  expiresInS: 900,
  refreshExpiresInS: 604_800,
  sessionId: "s1",
  userId: "u1",
};
const SESSION: NewSession = {
  userId: "u1",
  role: "AUDITOR",
  amr: ["pwd"],
  acr: 1,
  limits: { idleS: 900, absoluteS: undefined, atMost: 3 },
  authTime: new Date(0),
  clientIp: "192.0.2.1",
  userAgent: "curl/8",
};

/** A client whose every call ends like this. */
function clientThat(error: unknown, response: IssueSessionResponse | undefined = undefined) {
  const requests: IssueSessionRequest[] = [];
  const client = {
    issueSession(
      request: IssueSessionRequest,
      _metadata: unknown,
      _options: unknown,
      done: (...args: unknown[]) => void,
    ) {
      requests.push(request);
      done(error, response);
    },
  } as unknown as SessionServiceClient;
  const issue = (session = SESSION, context = newCallContext({ budgetMs: 60_000 })) =>
    createTokenServiceClient(client).issueSession(session, context);
  return { issue, requests };
}

test("a session is asked for once, with who, how and from where", async () => {
  const { issue, requests } = clientThat(null, { tokens: TOKENS });
  expect(await issue()).toEqual(TOKENS);
  expect(requests).toEqual([
    {
      userId: "u1",
      amr: ["pwd"],
      acr: "urn:gatehouse:acr:1",
      authTime: new Date(0),
      ip: "192.0.2.1",
      userAgent: "curl/8",
      role: "AUDITOR",
      limits: { idleS: 900, absoluteS: 0, atMost: 3 },
      confirmation: undefined,
    },
  ]);
});

test("a session is asked for with the keys that the client has proven to the gateway", async () => {
  const { issue, requests } = clientThat(null, { tokens: TOKENS });
  const proven = { jkt: "K".repeat(43), x5tS256: "" };
  await issue(SESSION, { ...newCallContext({ budgetMs: 60_000 }), proven });
  expect(requests[0]?.confirmation).toEqual(proven);
});

test("a long User-Agent is cut to 512 characters, never through one", async () => {
  const { issue, requests } = clientThat(null, { tokens: TOKENS });
  await issue({ ...SESSION, userAgent: `${"x".repeat(511)}🔑 and more` });
  expect(requests[0]?.userAgent).toHaveLength(512);
  expect(requests[0]?.userAgent.isWellFormed()).toBe(true);
});

test.each([
  ["is away", { code: status.UNAVAILABLE, details: "no connection" }],
  ["does not answer in time", { code: status.DEADLINE_EXCEEDED }],
  ["says it is unavailable", toRpcError(new DomainError("service_unavailable"))],
])("token-service %s: service_unavailable, asked once", async (_what, error) => {
  const { issue, requests } = clientThat(error);
  await expect(issue()).rejects.toMatchObject({ name: "DomainError", code: "service_unavailable" });
  expect(requests).toHaveLength(1);
});

test.each([
  ["refuses our certificate", toRpcError(new DomainError("caller_not_allowed"))],
  ["refuses our request", toRpcError(new DomainError("validation_failed"))],
  ["has a defect", { code: status.INTERNAL }],
])("token-service %s: a defect of ours, not an answer for the client", async (_what, error) => {
  await expect(clientThat(error).issue()).rejects.not.toBeInstanceOf(DomainError);
});

test("a session without tokens is no session", async () => {
  await expect(clientThat(null, { tokens: undefined }).issue()).rejects.toThrow("without tokens");
});

test.each([
  [{ begunBefore: new Date(1_000) }, new Date(1_000)],
  [{}, undefined],
])("an end of sessions %j says when its cause was, if it is late", async (late, begunBefore) => {
  const requests: RevokeUserSessionsRequest[] = [];
  const client = {
    revokeUserSessions(
      request: RevokeUserSessionsRequest,
      _metadata: unknown,
      _options: unknown,
      done: (...args: unknown[]) => void,
    ) {
      requests.push(request);
      done(null, { sessionIds: ["s1"], sequence: 1 });
    },
  } as unknown as SessionServiceClient;
  const which = { userId: "u1", exceptSessionId: null, reason: "password_reset", ...late };
  expect(
    await createTokenServiceClient(client).revokeUserSessions(which, newCallContext({ budgetMs: 60_000 })),
  ).toEqual(["s1"]);
  expect(requests).toEqual([{ userId: "u1", exceptSessionId: "", reason: "password_reset", begunBefore }]);
});
