import { AsyncLocalStorage } from "node:async_hooks";
import { connect as connectHttp2, constants } from "node:http2";
import { connect as connectTls } from "node:tls";
import { type Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient, openServerStream } from "#kit/rpc/rpc-client.ts";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { callTimeLeftMs, callTurn } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  TokenServiceClient,
  type TokenServiceServer,
  TokenServiceService,
} from "#proto/gatehouse/token/v1/token_service.ts";
import { createTestCertificates, type TestCertificates } from "../support/system/certificates.ts";

let certificates: TestCertificates;
let strangers: TestCertificates;
let server: RpcServer;
let port: number;
let streamEnded: Promise<void>;
let calls = 0;
let lastDeadlineMs = 0;
const clients: Client[] = [];
const logger = pino({ level: "silent" });

/** Of the call that is watched. */
let timeLeftMs: (() => number | undefined) | undefined;
const isWatched = Promise.withResolvers<void>();
const isGivenUp = Promise.withResolvers<void>();

const implementation: Implementation<TokenServiceServer> = {
  async verifyToken({ token }, context) {
    calls += 1;
    lastDeadlineMs = context.deadlineMs;
    if (token === "bug") throw new Error("select * from secrets");
    if (token === "domain") throw new DomainError("conflict", "said so");
    if (token === "slow") await isGivenUp.promise;
    if (token === "watched") {
      timeLeftMs = AsyncLocalStorage.bind(callTimeLeftMs);
      await isWatched.promise;
    }
    return {
      active: true,
      reason: 0,
      principal: {
        userId: context.caller,
        sessionId: context.requestId,
        role: "",
        tokenId: callTurn() ?? "",
        keyId: "",
        amr: [context.actor?.userId ?? "no actor", context.person ?? "no person"],
        acr: "",
        authTime: undefined,
        issuedAt: undefined,
        expiresAt: undefined,
        kind: 0,
        clientId: "",
        scopes: [],
        confirmation: undefined,
        audience: "",
      },
      expiresInMs: 0,
    };
  },
  async *watchRevocations({ afterSequence }, { signal }) {
    let resolveEnded = () => {};
    streamEnded = new Promise((resolve) => {
      resolveEnded = resolve;
    });
    try {
      for (let sequence = afterSequence + 1; !signal.aborted; sequence += 1) {
        yield {
          revocations: [],
          sequence,
          caughtUp: true,
          tip: "",
          readAt: undefined,
          keepS: 0,
          elapsedMs: 0,
          rules: undefined,
          part: undefined,
        };
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    } finally {
      resolveEnded();
    }
  },
  async getJwks() {
    return { jwksJson: "{}", maxAgeS: 1, issuer: "" };
  },
};

beforeAll(async () => {
  certificates = await createTestCertificates();
  strangers = await createTestCertificates();
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger,
    metrics: createMetrics("test"),
  });
  server.add(
    TokenServiceService,
    { verifyToken: ["gateway"], watchRevocations: ["gateway"], getJwks: [] },
    implementation,
  );
  port = await server.listen();
});

afterAll(async () => {
  for (const client of clients) client.close();
  await server.close(1_000);
  await certificates.remove();
  await strangers.remove();
});

function clientOf(
  name: "gateway" | "audit-service" | "operator",
  from = certificates,
  service = "token-service",
) {
  const client = createRpcClient(TokenServiceClient, {
    address: `127.0.0.1:${port}`,
    service,
    certificate: from.of(name),
  });
  clients.push(client);
  return client;
}

function failureOf(
  client: TokenServiceClient,
  options: { deadline?: number } = { deadline: Date.now() + 2_000 },
) {
  return new Promise<ServiceError>((resolve, reject) => {
    client.makeUnaryRequest<Buffer, Buffer>(
      TokenServiceService.verifyToken.path,
      (value) => value,
      (value) => value,
      Buffer.alloc(0),
      options,
      (error) => (error === null ? reject(new Error("the call succeeded")) : resolve(error)),
    );
  });
}

test("a listed caller is served, and known by its certificate", async () => {
  const client = clientOf("gateway");
  const context = newCallContext({ budgetMs: 60_000 });
  const answer = await callUnary(client, client.verifyToken, { token: "t" }, context);
  expect(answer.principal).toMatchObject({ userId: "gateway", sessionId: context.requestId });
});

test.each([
  ["gateway", ["user-1", "no person"]],
  ["identity-service", ["no actor", "no person"]],
  ["operator", ["no actor", "operator:tester"]],
] as const)("the actor of a call from %s is %j", async (name, expected) => {
  const who = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger,
    metrics: createMetrics("test"),
    actorsTakeTurns: true,
  });
  const callers = { verifyToken: [name], watchRevocations: [], getJwks: [] };
  who.add(TokenServiceService, callers, implementation);
  const client = createRpcClient(TokenServiceClient, {
    address: `127.0.0.1:${await who.listen()}`,
    service: "token-service",
    certificate: certificates.of(name),
  });
  const actor = { userId: "user-1", role: "ADMIN", sessionId: "session-1" };
  const answer = await callUnary(
    client,
    client.verifyToken,
    { token: "t" },
    { ...newCallContext({ budgetMs: 60_000 }), actor },
  );
  expect(answer.principal?.amr).toEqual(expected);
  expect(answer.principal?.tokenId).toBe(name === "gateway" ? "user-1" : "");
  client.close();
  await who.close(1_000);
});

test("calls without an actor take turns by the secret that they present, which is nobody's name", async () => {
  const who = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger,
    metrics: createMetrics("test"),
    actorsTakeTurns: true,
    turnFields: ["absent", "token"],
  });
  who.add(
    TokenServiceService,
    { verifyToken: ["gateway"], watchRevocations: [], getJwks: [] },
    implementation,
  );
  const client = createRpcClient(TokenServiceClient, {
    address: `127.0.0.1:${await who.listen()}`,
    service: "token-service",
    certificate: certificates.of("gateway"),
  });
  const actor = { userId: "user-1", role: "ADMIN", sessionId: "session-1" };
  const turnOf = async (token: string, caller: object) => {
    const context = { ...newCallContext({ budgetMs: 60_000 }), ...caller };
    return (await callUnary(client, client.verifyToken, { token }, context)).principal?.tokenId;
  };
  expect(await turnOf("user-1", { actor })).toBe("user-1");
  expect(await turnOf("user-1", {})).toBe("secret user-1");
  expect(await turnOf("", {})).toBe("");
  client.close();
  await who.close(0);
});

test("calls of one actor take no turns where the server does not say so", async () => {
  const client = clientOf("gateway");
  const actor = { userId: "user-1", role: "ADMIN", sessionId: "session-1" };
  const context = { ...newCallContext({ budgetMs: 60_000 }), actor };
  const answer = await callUnary(client, client.verifyToken, { token: "t" }, context);
  expect(answer.principal).toMatchObject({ amr: ["user-1", "no person"], tokenId: "" });
});

test.each(["audit-service", "operator"] as const)(
  "%s, which no list names, is refused before any work",
  async (name) => {
    const before = calls;
    const client = clientOf(name);
    await expect(
      callUnary(client, client.verifyToken, { token: "t" }, newCallContext({ budgetMs: 60_000 })),
    ).rejects.toMatchObject({ code: "caller_not_allowed" });
    await expect(failureOf(client)).resolves.toMatchObject({ code: status.PERMISSION_DENIED });
    expect(calls).toBe(before);
  },
);

test("a caller that a variable does not name reads which one, and so do the log, the metrics and nobody else", async () => {
  const lines: string[] = [];
  const metrics = createMetrics("test");
  const own = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "warn" }, { write: (line: string) => void lines.push(line) }),
    metrics,
    callerSettings: { "gatehouse.token.v1.TokenService": "VERIFIERS" },
  });
  own.add(TokenServiceService, { verifyToken: [], watchRevocations: [], getJwks: [] }, implementation);
  const address = `127.0.0.1:${await own.listen()}`;
  const ofName = (name: "payments-service" | "operator") => {
    const client = createRpcClient(TokenServiceClient, {
      address,
      service: "token-service",
      certificate: certificates.of(name),
    });
    clients.push(client);
    return client;
  };
  try {
    const client = ofName("payments-service");
    const details =
      "payments-service may not call this: add its name to VERIFIERS, which is read at the start";
    expect(await failureOf(client)).toMatchObject({ code: status.PERMISSION_DENIED, details });
    const watch = openServerStream(
      client,
      client.watchRevocations,
      { afterSequence: 0, tip: "" },
      newCallContext({ budgetMs: 60_000 }),
    );
    expect(await new Promise((resolve) => watch.once("error", resolve))).toMatchObject({ details });
    // The variable takes no people.
    expect((await failureOf(ofName("operator"))).details).not.toContain("VERIFIERS");
    const service = "/gatehouse.token.v1.TokenService";
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { method: `${service}/VerifyToken`, caller: "payments-service", setting: "VERIFIERS" },
      { method: `${service}/WatchRevocations`, caller: "payments-service", setting: "VERIFIERS" },
      { method: `${service}/VerifyToken`, caller: "operator:tester" },
    ]);
    expect(await metrics.render()).toMatch(
      /^gatehouse_rpc_callers_refused_total\{[^}]*caller="payments-service",setting="VERIFIERS",service="test"\} 2$/m,
    );
  } finally {
    await own.close(1_000);
  }
});

test("a method with an empty list serves nobody", async () => {
  const client = clientOf("gateway");
  await expect(
    callUnary(client, client.getJwks, {}, newCallContext({ budgetMs: 60_000 })),
  ).rejects.toMatchObject({
    code: "caller_not_allowed",
  });
});

test("a certificate of another authority is no certificate", async () => {
  await expect(failureOf(clientOf("gateway", strangers))).resolves.toMatchObject({
    code: status.UNAVAILABLE,
  });
});

test("plaintext, and TLS without a client certificate, reach nothing", async () => {
  const before = calls;
  const plain = new TokenServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
  const anonymous = new TokenServiceClient(
    `localhost:${port}`,
    credentials.createSsl(certificates.of("gateway").material.caCertificate),
  );
  clients.push(plain, anonymous);
  await expect(failureOf(plain)).resolves.toMatchObject({ code: status.UNAVAILABLE });
  await expect(failureOf(anonymous)).resolves.toMatchObject({ code: status.UNAVAILABLE });
  expect(calls).toBe(before);
});

test("TLS 1.2 is refused", async () => {
  const { caCertificate, certificate, privateKey } = certificates.of("gateway").material;
  const error = await new Promise<Error>((resolve, reject) => {
    connectTls(
      {
        port,
        host: "localhost",
        ca: caCertificate,
        cert: certificate,
        key: privateKey,
        maxVersion: "TLSv1.2",
      },
      () => reject(new Error("connected")),
    ).on("error", resolve);
  });
  expect(error.message).toMatch(/protocol version/i);
});

test("a server with the right authority and another name is not the one we call", async () => {
  const client = clientOf("gateway", certificates, "identity-service");
  await expect(
    callUnary(client, client.verifyToken, { token: "t" }, newCallContext({ budgetMs: 60_000 })),
  ).rejects.toMatchObject({ code: "service_unavailable" });
});

test("a call without a deadline is refused before any work", async () => {
  const before = calls;
  await expect(failureOf(clientOf("gateway"), {})).resolves.toMatchObject({ code: status.INVALID_ARGUMENT });
  expect(calls).toBe(before);
});

test("a message over 64 KiB is refused", async () => {
  const client = clientOf("gateway");
  await expect(
    callUnary(
      client,
      client.verifyToken,
      { token: "a".repeat(65_537) },
      newCallContext({ budgetMs: 60_000 }),
    ),
  ).rejects.toMatchObject({ code: "service_unavailable" });
});

test("metadata over 8 KiB is refused", async () => {
  const client = clientOf("gateway");
  const context = {
    ...newCallContext({ budgetMs: 60_000 }),
    actor: { userId: "u".repeat(8_200), role: "USER", sessionId: "s" },
  };
  await expect(callUnary(client, client.verifyToken, { token: "t" }, context)).rejects.toMatchObject({
    code: "headers_too_large",
  });
});

test("an expected failure keeps its code and message, a bug shows nothing", async () => {
  const client = clientOf("gateway");
  await expect(
    callUnary(client, client.verifyToken, { token: "domain" }, newCallContext({ budgetMs: 60_000 })),
  ).rejects.toMatchObject({ code: "conflict", message: "said so" });
  const bug = await callUnary(
    client,
    client.verifyToken,
    { token: "bug" },
    newCallContext({ budgetMs: 60_000 }),
  ).catch((error: unknown) => error);
  expect(bug).toMatchObject({ code: "internal_error" });
  expect(JSON.stringify(bug)).not.toMatch(/secrets/);
});

test("a peer that answers nothing is unavailable after the caller's budget", async () => {
  const client = clientOf("gateway");
  await expect(
    callUnary(client, client.verifyToken, { token: "slow" }, newCallContext({ budgetMs: 200 })),
  ).rejects.toMatchObject({ code: "service_unavailable" });
  isGivenUp.resolve();
});

test("a call that is given up while it is served has no time left", async () => {
  const client = clientOf("gateway");
  const { promise: answered, resolve } = Promise.withResolvers<ServiceError | null>();
  const metadata = new Metadata();
  const call = client.verifyToken({ token: "watched" }, metadata, { deadline: Date.now() + 9_000 }, resolve);
  await expect.poll(() => timeLeftMs?.()).toBeGreaterThan(0);
  call.cancel();
  await expect.poll(() => timeLeftMs?.()).toBe(Number.NEGATIVE_INFINITY);
  isWatched.resolve();
  expect(await answered).toMatchObject({ code: status.CANCELLED });
});

test("a call whose client has gone before it is looked at is not taken for a call without a certificate", async () => {
  const lines: string[] = [];
  const own = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "warn" }, { write: (line: string) => void lines.push(line) }),
    metrics: createMetrics("test"),
  });
  const callers = { verifyToken: ["gateway"], watchRevocations: [], getJwks: [] };
  own.add(TokenServiceService, callers, implementation);
  const { caCertificate, certificate, privateKey } = certificates.of("gateway").material;
  const address = `127.0.0.1:${await own.listen()}`;
  const session = connectHttp2(`https://${address}`, {
    ca: caCertificate,
    cert: certificate,
    key: privateKey,
    checkServerIdentity: () => undefined,
  });
  try {
    const ended = Array.from({ length: 500 }, () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const request = session.request({
        ":method": "POST",
        ":path": "/gatehouse.token.v1.TokenService/VerifyToken",
        "content-type": "application/grpc",
        te: "trailers",
        "grpc-timeout": "2S",
      });
      request.on("error", () => undefined).on("close", resolve);
      request.end(Buffer.from([0, 0, 0, 0, 3, 10, 1, 0x74]));
      // A busy server often reads a call and its cancellation together.
      process.nextTick(() => request.close(constants.NGHTTP2_CANCEL));
      return promise;
    });
    await Promise.all(ended);
    const client = createRpcClient(TokenServiceClient, {
      address,
      service: "token-service",
      certificate: certificates.of("gateway"),
    });
    clients.push(client);
    await callUnary(client, client.verifyToken, { token: "t" }, newCallContext({ budgetMs: 60_000 }));
    expect(lines.filter((line) => line.includes("caller refused"))).toEqual([]);
  } finally {
    session.close();
    await own.close(1_000);
  }
});

test("a stream ends on the server when its client goes", async () => {
  const client = clientOf("gateway");
  const stream = openServerStream(
    client,
    client.watchRevocations,
    { afterSequence: 41, tip: "" },
    newCallContext({ budgetMs: 60_000 }),
  );
  const first = await new Promise<{ sequence: number }>((resolve) => stream.once("data", resolve));
  expect(first.sequence).toBe(42);
  stream.on("error", () => undefined);
  stream.cancel();
  await streamEnded;
});

function answerTo(metadata: Metadata, deadline = Date.now() + 2_000): Promise<ServiceError | null> {
  const client = clientOf("gateway");
  return new Promise((resolve) => {
    client.verifyToken({ token: "t" }, metadata, { deadline }, (error) => resolve(error));
  });
}

test("the limit of metadata counts all values of a key, and its bytes", async () => {
  const many = new Metadata();
  for (let index = 0; index < 9; index += 1) many.add("x-many-bin", Buffer.alloc(1_024));
  expect(await answerTo(many)).toMatchObject({ code: status.INVALID_ARGUMENT });
  const few = new Metadata();
  for (let index = 0; index < 5; index += 1) few.add("x-few-bin", Buffer.alloc(1_024));
  expect(await answerTo(few)).toBeNull();
});

test.each(["x-actor-user-id", "x-actor-role", "x-actor-session-id"])(
  "two values of %s are refused",
  async (key) => {
    const metadata = new Metadata();
    metadata.add(key, "anna");
    expect(await answerTo(metadata)).toBeNull();
    metadata.add(key, "eve");
    expect(await answerTo(metadata)).toMatchObject({ code: status.INVALID_ARGUMENT });
  },
);

test("no call is given more than ten seconds, whatever its deadline says", async () => {
  const client = clientOf("gateway");
  const beforeMs = Date.now();
  await callUnary(client, client.verifyToken, { token: "t" }, newCallContext({ budgetMs: 3_600_000 }));
  expect(lastDeadlineMs).toBeGreaterThan(beforeMs + 9_000);
  expect(lastDeadlineMs).toBeLessThanOrEqual(Date.now() + 10_000);
  await callUnary(client, client.verifyToken, { token: "t" }, newCallContext({ budgetMs: 4_000 }));
  expect(lastDeadlineMs).toBeLessThanOrEqual(Date.now() + 4_000);
});

test.each([
  ["a minute ago", 62_000],
  ["in this moment", 2_000],
])(
  "a call whose deadline has passed before its turn (%s) is refused, and no work is done for it",
  async (_when, laterMs) => {
    const before = calls;
    const nowMs = Date.now();
    const clock = vi.spyOn(Date, "now");
    // The server's clock: the call's deadline is set by the client and checked here, in one process.
    clock.mockImplementation(() => nowMs + (isServing() ? laterMs : 0));
    const failure = await answerTo(new Metadata(), nowMs + 2_000);
    clock.mockRestore();
    expect(failure).toMatchObject({ code: status.UNAVAILABLE, details: "The deadline has passed" });
    expect(calls).toBe(before);
  },
);

/** Whether the caller is the server's admission of a call. */
function isServing(): boolean {
  return /\badmit\b/.test(new Error().stack ?? "");
}

test("calls are counted by method and outcome; a bug is an error in the log, what is expected is not", async () => {
  const lines: string[] = [];
  const metrics = createMetrics("test");
  const own = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "debug" }, { write: (line: string) => void lines.push(line) }),
    metrics,
  });
  own.add(
    TokenServiceService,
    { verifyToken: ["gateway"], watchRevocations: [], getJwks: [] },
    implementation,
  );
  const client = createRpcClient(TokenServiceClient, {
    address: `127.0.0.1:${await own.listen()}`,
    service: "token-service",
    certificate: certificates.of("gateway"),
  });
  try {
    const context = newCallContext({ budgetMs: 60_000 });
    for (const token of ["t", "t", "domain", "bug"]) {
      await callUnary(client, client.verifyToken, { token }, context).catch(() => undefined);
    }
    await callUnary(client, client.getJwks, {}, context).catch(() => undefined);
    const method = TokenServiceService.verifyToken.path;
    const text = await metrics.render();
    const counted = (path: string, code: string) =>
      text
        .split("\n")
        .find(
          (line) =>
            line.includes("_seconds_count{") && line.includes(`"${path}"`) && line.includes(`"${code}"`),
        )
        ?.split(" ")
        .at(-1);
    expect([
      counted(method, "OK"),
      counted(method, "FAILED_PRECONDITION"),
      counted(method, "INTERNAL"),
      counted(TokenServiceService.getJwks.path, "PERMISSION_DENIED"),
    ]).toEqual(["2", "1", "1", "1"]);
    const { requestId } = context;
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { level: 20, code: "conflict", method, requestId },
      { level: 50, err: { message: "select * from secrets" }, method, requestId },
      { level: 40, method: TokenServiceService.getJwks.path },
    ]);
  } finally {
    client.close();
    await own.close(1_000);
  }
});
