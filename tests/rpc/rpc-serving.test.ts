import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2 } from "node:http2";
import { connect, createServer, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { type ClientReadableStream, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { type Span, trace } from "@opentelemetry/api";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { issueCertificate } from "#deploy/certificate-pair.ts";
import { newCallContext, traceIdOf } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient, openBidiStream, openServerStream } from "#kit/rpc/rpc-client.ts";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { type Implementation, RpcServer, type RpcServerOptions } from "#kit/rpc/rpc-server.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  AuditServiceClient,
  type AuditServiceServer,
  AuditServiceService,
} from "#proto/gatehouse/audit/v1/audit_service.ts";
import {
  TokenServiceClient,
  type TokenServiceServer,
  TokenServiceService,
  type VerifyTokenResponse,
  type WatchRevocationsResponse,
} from "#proto/gatehouse/token/v1/token_service.ts";
import { createTestCertificates, type TestCertificates } from "../support/system/certificates.ts";

type Methods = Implementation<TokenServiceServer>;

const ANSWER: VerifyTokenResponse = { active: true, reason: 0, principal: undefined, expiresInMs: 0 };
const CALLERS = { verifyToken: ["gateway"], watchRevocations: ["gateway"], getJwks: [] };
const VERIFY = TokenServiceService.verifyToken.path;

let certificates: TestCertificates;
let metrics: Metrics;
/** What the server logged, parsed. */
let lines: Record<string, unknown>[];
let server: RpcServer;
let port: number;
const cleanUps: (() => unknown)[] = [];

beforeAll(async () => {
  certificates = await createTestCertificates();
});

afterAll(() => certificates.remove());

beforeEach(() => {
  lines = [];
});

afterEach(async () => {
  vi.restoreAllMocks();
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

function create(options: Partial<RpcServerOptions> = {}): RpcServer {
  metrics = createMetrics("test");
  const created = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "debug" }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    metrics,
    ...options,
  });
  cleanUps.push(() => created.close(0));
  return created;
}

async function start(
  methods: Partial<Methods>,
  options: Partial<RpcServerOptions> & { endless?: boolean } = {},
): Promise<void> {
  const { endless = false, ...more } = options;
  server = create(more);
  const all: Methods = {
    verifyToken: async () => ANSWER,
    async *watchRevocations() {},
    getJwks: async () => ({ jwksJson: "{}", maxAgeS: 1, issuer: "" }),
    ...methods,
  };
  const withoutEnd = endless ? (["watchRevocations"] as const) : [];
  server.add<TokenServiceServer>(TokenServiceService, CALLERS, all, withoutEnd);
  port = await server.listen();
}

function clientOf(certificate = certificates.of("gateway")): TokenServiceClient {
  const client = createRpcClient(TokenServiceClient, {
    address: `127.0.0.1:${port}`,
    service: "token-service",
    certificate,
  });
  cleanUps.push(() => client.close());
  return client;
}

function verify(client: TokenServiceClient, token = "t", context = newCallContext({ budgetMs: 10_000 })) {
  return callUnary(client, client.verifyToken, { token }, context);
}

interface Watched {
  stream: ClientReadableStream<WatchRevocationsResponse>;
  sequences: number[];
  /** How it ended: `end`, or the failure's code. */
  ending: string | undefined;
}

function watch(client: TokenServiceClient, context = newCallContext({ budgetMs: 60_000 })): Watched {
  const request = { afterSequence: 0, tip: "" };
  const stream = openServerStream(client, client.watchRevocations, request, context);
  const watched: Watched = { stream, sequences: [], ending: undefined };
  stream.on("data", ({ sequence }: { sequence: number }) => watched.sequences.push(sequence));
  stream.on("error", (error) => {
    watched.ending = fromRpcError(error).code;
  });
  stream.on("end", () => {
    watched.ending ??= "end";
  });
  return watched;
}

function message(sequence: number, tip = ""): WatchRevocationsResponse {
  return {
    revocations: [],
    sequence,
    caughtUp: true,
    tip,
    readAt: undefined,
    keepS: 0,
    elapsedMs: 0,
    rules: undefined,
    part: undefined,
  };
}

/** Without an end of its own, and deaf to its signal. */
async function* countForEver(): AsyncGenerator<WatchRevocationsResponse> {
  for (let sequence = 1; ; sequence += 1) {
    yield message(sequence);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Stays open after its first answer, deaf to its signal. A stream has no deadline that would end it. */
async function* answerOnce(): AsyncGenerator<WatchRevocationsResponse> {
  yield message(1);
  await new Promise(() => undefined);
}

/** A connection of the gateway without a gRPC client. @param socket connected, without TLS so far. */
function openSession(socket?: Socket): ClientHttp2Session {
  const { caCertificate, certificate, privateKey } = certificates.of("gateway").material;
  const session = connectHttp2(`https://127.0.0.1:${port}`, {
    ...(socket !== undefined && { socket }),
    ca: caCertificate,
    cert: certificate,
    key: privateKey,
    checkServerIdentity: () => undefined,
  });
  session.on("error", () => undefined);
  cleanUps.push(() => session.destroy());
  return session;
}

/** A call whose answer is not read by itself. @param body the message, framed. */
function openRaw(session: ClientHttp2Session, path: string, body: Buffer): ClientHttp2Stream {
  const request = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    "grpc-timeout": "60S",
  });
  request.on("error", () => undefined);
  request.end(body);
  return request;
}

/** A message without fields, framed. */
const EMPTY_FRAME = Buffer.alloc(5);
/** The token "t" to verify, framed. */
const TOKEN_FRAME = Buffer.from([0, 0, 0, 0, 3, 10, 1, 0x74]);

/** Waits until a raw call is answered without a failure. */
async function answerOf(request: ClientHttp2Stream): Promise<void> {
  const answered = new Promise((resolve, reject) => {
    request.on("trailers", resolve).on("error", reject).resume();
  });
  expect(await answered).toMatchObject({ "grpc-status": "0" });
}

/** Waits for the first bytes of a raw call's answer. */
async function firstBytesOf(request: ClientHttp2Stream): Promise<void> {
  await new Promise((resolve) => request.once("data", resolve));
}

/** Whether anybody takes connections. */
function isListening(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

test("while the clock is wrong a call is unavailable before anything is done, and then works again", async () => {
  const verifyToken = vi.fn(async () => ANSWER);
  let isWrong = true;
  const assertClock = () => {
    if (isWrong) throw new DomainError("service_unavailable", "The clock is wrong");
  };
  await start({ verifyToken }, { assertClock });
  const client = clientOf();
  await expect(verify(client)).rejects.toMatchObject({ code: "service_unavailable" });
  expect(verifyToken).not.toHaveBeenCalled();
  isWrong = false;
  expect(await verify(client)).toEqual(ANSWER);
});

test("who serves no more ends its streams, lets calls under way end and takes no connection; then it serves again at its port", async () => {
  const goOn = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  await start({
    async verifyToken({ token }) {
      begun.resolve();
      if (token === "slow") await goOn.promise;
      return ANSWER;
    },
    watchRevocations: countForEver,
  });
  const client = clientOf();
  const watched = watch(client);
  const slow = verify(client, "slow");
  await begun.promise;
  await expect.poll(() => watched.sequences.length).toBeGreaterThan(0);
  await server.setServing(true); // as it does
  await server.setServing(false);
  await expect.poll(() => watched.ending).toBe("end");
  await expect.poll(isListening).toBe(false);
  goOn.resolve();
  await expect(slow).resolves.toMatchObject({ active: true });

  await server.setServing(true);
  const again = clientOf();
  await expect(verify(again)).resolves.toMatchObject({ active: true });
  const other = watch(again);
  await expect.poll(() => other.sequences.length).toBeGreaterThan(3);
  expect(other.ending).toBeUndefined();
});

test("a connection that became ready after the server stopped is asked to leave by its first stream", async () => {
  await start({ watchRevocations: countForEver });
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  // Connections are taken in order.
  await verify(clientOf());
  await server.setServing(false);
  const session = openSession(socket);
  const goneAway = once(session, "goaway");
  const request = openRaw(session, TokenServiceService.watchRevocations.path, EMPTY_FRAME);
  const trailers = new Promise((resolve) => request.on("trailers", resolve).on("response", resolve).resume());
  expect(await trailers).toMatchObject({ "grpc-status": String(status.UNAVAILABLE) });
  await goneAway;
  await expect.poll(() => session.closed).toBe(true);
});

test("a person whose certificate was taken away is refused on the connection that is open, also in a stream", async () => {
  const refused = new Set<string>();
  server = create({ refusedPeople: refused });
  server.add<TokenServiceServer>(
    TokenServiceService,
    { verifyToken: ["operator"], watchRevocations: ["operator"], getJwks: [] },
    {
      verifyToken: async () => ANSWER,
      watchRevocations: countForEver,
      getJwks: async () => ({ jwksJson: "{}", maxAgeS: 1, issuer: "" }),
    },
  );
  port = await server.listen();
  const client = clientOf(certificates.of("operator"));
  await verify(client);
  const watched = watch(client);
  await expect.poll(() => watched.sequences.length).toBeGreaterThan(0);
  refused.add("operator:other");
  await expect(verify(client)).resolves.toMatchObject({ active: true });
  expect(watched.ending).toBeUndefined();

  refused.add("operator:tester");
  await expect(verify(client)).rejects.toMatchObject({ code: "caller_not_allowed" });
  await expect.poll(() => watched.ending).toBe("caller_not_allowed");
  refused.clear();
  await expect(verify(client)).resolves.toMatchObject({ active: true });
});

test("who serves no more cuts what is still open five seconds later", async () => {
  await start({ watchRevocations: answerOnce });
  const session = openSession();
  await firstBytesOf(openRaw(session, TokenServiceService.watchRevocations.path, Buffer.alloc(5)));
  const timers = vi.spyOn(globalThis, "setTimeout");
  const isAsked = new Promise((resolve) => session.once("goaway", resolve));
  await server.setServing(false);
  await isAsked;
  expect(session.destroyed).toBe(false);
  const cut = timers.mock.calls.find(([, ms]) => ms === 5_000)?.[0];
  cut?.();
  await expect.poll(() => session.destroyed).toBe(true);
});

test("a port that was taken meanwhile is an error, and is tried again", async () => {
  await start({});
  await server.setServing(false);
  await expect.poll(isListening).toBe(false);
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(port, "127.0.0.1", resolve));
  await expect(server.setServing(true)).rejects.toThrow();
  const rival = create({ address: `127.0.0.1:${port}` });
  await expect(rival.listen()).rejects.toThrow();
  await new Promise((resolve) => other.close(resolve));
  await server.setServing(true);
  await expect(verify(clientOf())).resolves.toMatchObject({ active: true });
});

test("before it listens and after it is closed a server neither begins nor ends to serve", async () => {
  server = create();
  await server.setServing(false);
  server.add(TokenServiceService, CALLERS, { ...NOTHING, verifyToken: async () => ANSWER });
  port = await server.listen();
  await expect(verify(clientOf())).resolves.toMatchObject({ active: true });
  await server.setServing(false);
  await expect.poll(isListening).toBe(false);
  await server.close(1_000);
  await server.setServing(true);
  expect(await isListening()).toBe(false);
});

const NOTHING: Methods = {
  verifyToken: async () => ANSWER,
  async *watchRevocations() {},
  getJwks: async () => ({ jwksJson: "", maxAgeS: 0, issuer: "" }),
};

test("close waits for open calls, and no longer", async () => {
  const goOn = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  await start({
    async verifyToken() {
      begun.resolve();
      await goOn.promise;
      return ANSWER;
    },
    watchRevocations: countForEver,
  });
  const client = clientOf();
  const watched = watch(client);
  await expect.poll(() => watched.sequences.length).toBeGreaterThan(0);
  const slow = verify(client);
  await begun.promise;
  let isClosed = false;
  const closed = server.close(3_600_000).then(() => {
    isClosed = true;
  });
  await expect.poll(() => watched.ending).toBe("end");
  expect(isClosed).toBe(false);
  goOn.resolve();
  await expect(slow).resolves.toMatchObject({ active: true });
  client.close();
  await closed;
});

test("close cuts what is open after its grace", async () => {
  await start({ watchRevocations: answerOnce });
  const session = openSession();
  await firstBytesOf(openRaw(session, TokenServiceService.watchRevocations.path, Buffer.alloc(5)));
  await server.close(50);
  await expect.poll(() => session.destroyed).toBe(true);
});

test("a stream that a caller may not open is refused before any work, and logged", async () => {
  let opened = 0;
  await start({
    async *watchRevocations() {
      opened += 1;
      yield message(1);
    },
  });
  const watched = watch(clientOf(certificates.of("identity-service")));
  await expect.poll(() => watched.ending).toBe("caller_not_allowed");
  expect(opened).toBe(0);
  expect(lines).toMatchObject([{ level: 40, method: TokenServiceService.watchRevocations.path }]);
});

test.each([
  [new DomainError("conflict"), "conflict", { level: 20, code: "conflict" }],
  [
    new Error("select * from secrets"),
    "internal_error",
    { level: 50, err: { message: "select * from secrets" } },
  ],
])("a stream that fails brings what came before, then why: %s", async (failure, code, logged) => {
  await start({
    async *watchRevocations() {
      yield message(1);
      yield message(2);
      throw failure;
    },
  });
  const context = newCallContext({ budgetMs: 60_000 });
  const watched = watch(clientOf(), context);
  await expect.poll(() => watched.ending).toBe(code);
  expect(watched.sequences).toEqual([1, 2]);
  expect(lines).toMatchObject([{ ...logged, requestId: context.requestId, traceId: traceIdOf(context) }]);
});

test("what fails because its client has gone is no failure", async () => {
  const ended = Promise.withResolvers<void>();
  await start({
    async *watchRevocations(_request, { signal }) {
      try {
        yield message(1);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        throw new Error("given up");
      } finally {
        ended.resolve();
      }
    },
  });
  const client = clientOf();
  const watched = watch(client);
  await expect.poll(() => watched.sequences.length).toBe(1);
  watched.stream.cancel();
  await ended.promise;
  await verify(client);
  expect(lines).toEqual([]);
});

test("an endless stream is ended in order at its age, also one whose source does not listen; another stream is not", async () => {
  await start({ watchRevocations: countForEver }, { endless: true, streamAgeMs: { min: 100, max: 100 } });
  const endless = watch(clientOf());
  await expect.poll(() => endless.ending).toBe("end");
  expect(endless.sequences.length).toBeGreaterThan(0);

  await start({ watchRevocations: countForEver }, { streamAgeMs: { min: 10, max: 10 } });
  const other = watch(clientOf());
  await expect.poll(() => other.sequences.length).toBeGreaterThan(20);
  expect(other.ending).toBeUndefined();
});

test("a stream whose client does not read is ended at its age too", async () => {
  let written = 0;
  let isEnded = false;
  await start(
    {
      async *watchRevocations() {
        try {
          for (; ; written += 1) yield message(written, "x".repeat(50_000));
        } finally {
          isEnded = true;
        }
      },
    },
    { endless: true, streamAgeMs: { min: 123_457, max: 123_457 } },
  );
  const timers = vi.spyOn(globalThis, "setTimeout");
  openRaw(openSession(), TokenServiceService.watchRevocations.path, Buffer.alloc(5)); // and reads nothing of it
  let [before, looks] = [0, 0];
  const isStuck = () => {
    looks = written > 0 && written === before ? looks + 1 : 0;
    before = written;
    return looks >= 10;
  };
  await expect.poll(isStuck).toBe(true);
  expect(isEnded).toBe(false);
  const age = timers.mock.calls.find(([, ms]) => ms === 123_457)?.[0];
  age?.();
  await expect.poll(() => isEnded).toBe(true);
});

test.each([
  [undefined, 90_000],
  [{ min: 100_003, max: 200_017 }, 150_010],
])(
  "the age of a stream lies between two times by chance: of %j, half-way is %i",
  async (streamAgeMs, expected) => {
    await start(
      { watchRevocations: countForEver },
      { endless: true, ...(streamAgeMs !== undefined && { streamAgeMs }) },
    );
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    const timers = vi.spyOn(globalThis, "setTimeout");
    const watched = watch(clientOf());
    await expect.poll(() => watched.sequences.length).toBeGreaterThan(0);
    expect(timers.mock.calls.map(([, ms]) => ms)).toContain(expected);
  },
);

test("a stream in both directions reads requests while it answers", async () => {
  const own = create({ certificate: certificates.of("audit-service") });
  const methods: Implementation<AuditServiceServer> = {
    async *record(requests) {
      for await (const { entries } of requests) yield { acknowledgedSequence: entries.length };
    },
    eraseClaimedEmail: async () => ({}) as never,
  };
  own.add(AuditServiceService, { record: ["gateway"], eraseClaimedEmail: [] }, methods);
  const client = createRpcClient(AuditServiceClient, {
    address: `127.0.0.1:${await own.listen()}`,
    service: "audit-service",
    certificate: certificates.of("gateway"),
  });
  cleanUps.push(() => client.close());
  const stream = openBidiStream(client, client.record, newCallContext({ budgetMs: 60_000 }));
  const answers: number[] = [];
  stream.on("data", ({ acknowledgedSequence }) => answers.push(acknowledgedSequence));
  stream.on("error", () => undefined);
  stream.write({ producerId: "p", entries: [] });
  await expect.poll(() => answers).toEqual([0]);
  stream.write({ producerId: "p", entries: [{ sequence: 1, entry: undefined }] });
  await expect.poll(() => answers).toEqual([0, 1]);
  stream.end();
});

test("a method without an implementation keeps the process from starting", () => {
  const { getJwks: _missing, ...rest } = NOTHING;
  expect(() => create().add(TokenServiceService, CALLERS, rest as Methods)).toThrow("has no implementation");
});

test("a server may take longer messages", async () => {
  await start({}, { maxReceiveBytes: 128 * 1024 });
  const client = clientOf();
  await expect(verify(client, "a".repeat(100_000))).resolves.toMatchObject({ active: true });
  await expect(verify(client, "a".repeat(140_000))).rejects.toMatchObject({ code: "service_unavailable" });
});

test("the limit of metadata counts keys too", async () => {
  await start({});
  const metadata = new Metadata();
  for (let index = 0; index < 100; index += 1) metadata.set(`x-${String(index).padStart(90, "0")}`, "v");
  const client = clientOf();
  const failure = await new Promise<ServiceError | null>((resolve) => {
    client.verifyToken({ token: "t" }, metadata, { deadline: Date.now() + 10_000 }, resolve);
  });
  expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT });
  expect(fromRpcError(failure).code).toBe("headers_too_large");
});

test("a certificate of our authority that names nobody who may call is refused, not a defect", async () => {
  await start({});
  const { TLS_CA_FILE } = certificates.environmentOf("gateway");
  const directory = dirname(TLS_CA_FILE);
  const authority = {
    certificate: await readFile(TLS_CA_FILE, "utf8"),
    key: await readFile(join(directory, "ca.key"), "utf8"),
  };
  const nobody = await issueCertificate(authority, "operator", new Date()); // without a person
  const files = { certFile: join(directory, "nobody.crt"), keyFile: join(directory, "nobody.key") };
  await writeFile(files.certFile, nobody.certificate);
  await writeFile(files.keyFile, nobody.key);
  const certificate = new ProcessCertificate({ ...files, caFile: TLS_CA_FILE });
  cleanUps.push(() => certificate.close());
  await expect(verify(clientOf(certificate))).rejects.toMatchObject({ code: "caller_not_allowed" });
});

test("something that a call needs and is unavailable is a warning in the log, with the call's ids", async () => {
  await start({ verifyToken: () => Promise.reject(new DomainError("service_unavailable")) });
  const context = newCallContext({ budgetMs: 10_000 });
  await expect(verify(clientOf(), "t", context)).rejects.toMatchObject({ code: "service_unavailable" });
  const ids = { requestId: context.requestId, traceId: traceIdOf(context) };
  expect(lines).toMatchObject([{ level: 40, method: VERIFY, err: { code: "service_unavailable" }, ...ids }]);
});

test("how long calls take is measured in seconds, failures too", async () => {
  await start({
    async verifyToken({ token }) {
      if (token === "fails") throw new DomainError("conflict");
      return ANSWER;
    },
  });
  const client = clientOf();
  const startedMs = performance.now();
  await verify(client);
  await verify(client, "fails").catch(() => undefined);
  const elapsedS = (performance.now() - startedMs) / 1_000;
  const sums = (await metrics.render())
    .split("\n")
    .filter((line) => line.startsWith("gatehouse_rpc_server_seconds_sum{"))
    .map((line) => Number(line.split(" ").at(-1)));
  const measured = sums.filter((sum) => sum !== 0);
  expect(measured).toHaveLength(2);
  for (const sum of measured) {
    expect(sum).toBeGreaterThan(0);
    expect(sum).toBeLessThanOrEqual(elapsedS);
  }
});

test("a connection serves one call after another: it is not ended at once for its age", async () => {
  await start({});
  const session = openSession();
  let goneAway = 0;
  session.on("goaway", () => {
    goneAway += 1;
  });
  for (let index = 0; index < 20; index += 1) {
    await answerOf(openRaw(session, VERIFY, TOKEN_FRAME));
  }
  expect(goneAway).toBe(0);
});

test("each call is a step of its trace, with the code of its failure", async () => {
  const spans: { name: string; kind: unknown; failure?: unknown; isEnded: boolean }[] = [];
  const startSpan = (name: string, { kind }: { kind?: unknown } = {}) => {
    const noted: (typeof spans)[number] = { name, kind, isEnded: false };
    spans.push(noted);
    return {
      spanContext: () => ({ traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: 1 }),
      setAttributes: () => undefined,
      setAttribute: (_name: string, value: unknown) => {
        noted.failure = value;
      },
      setStatus: () => undefined,
      end: () => {
        noted.isEnded = true;
      },
    } as unknown as Span;
  };
  trace.setGlobalTracerProvider({
    getTracer: () => ({ startSpan, startActiveSpan: () => undefined as never }),
  });
  cleanUps.push(() => trace.disable());
  await start({
    async verifyToken({ token }) {
      if (token === "fails") throw new DomainError("conflict");
      return ANSWER;
    },
  });
  const client = clientOf();
  await verify(client);
  await verify(client, "fails").catch(() => undefined);
  const served = spans.filter(({ kind }) => kind === 1);
  const name = VERIFY.slice(1);
  expect(served).toEqual([
    { name, kind: 1, isEnded: true },
    { name, kind: 1, isEnded: true, failure: "conflict" },
  ]);
});
