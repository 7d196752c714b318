import dns from "node:dns";
import { once } from "node:events";
import {
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { type ServiceDefinition, status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { openRpcChannel, type RpcClientOptions } from "#kit/rpc/rpc-client.ts";
import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestCertificates, type TestCertificates } from "../support/system/certificates.ts";
import { openEdge } from "../support/system/faulty-edge.ts";

/** What a client of gRPC must bear from its peer, which is plain HTTP/2 here. */

const text = {
  requestStream: false,
  responseStream: false,
  requestSerialize: (value: string) => Buffer.from(value),
  requestDeserialize: String,
  responseSerialize: (value: string) => Buffer.from(value),
  responseDeserialize: (bytes: Buffer) => bytes.toString(),
} as const;
const ECHO = {
  meet: { ...text, path: "/test.Echo/Meet" },
  say: { ...text, path: "/test.Echo/Say" },
  read: { ...text, path: "/test.Echo/Read" },
} satisfies ServiceDefinition;
const IDEMPOTENT = ["test.Echo/Read"];

let certificates: TestCertificates;
beforeAll(async () => {
  certificates = await createTestCertificates();
});
afterAll(() => certificates.remove());
afterEach(() => void vi.restoreAllMocks());

type Handler = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

interface Peer {
  port: number;
  sessions: ServerHttp2Session[];
}

async function serve(
  handler: Handler,
  options: SecureServerOptions = {},
  name: Parameters<TestCertificates["of"]>[0] = "token-service",
): Promise<Peer> {
  const { caCertificate: ca, certificate: cert, privateKey: key } = certificates.of(name).material;
  const server = createSecureServer({ ca, cert, key, requestCert: true, ...options });
  const sessions: ServerHttp2Session[] = [];
  server.on("session", (session) => sessions.push(session.on("error", () => undefined)));
  server.on("stream", (stream, headers) => {
    stream.on("error", () => undefined).resume();
    if (headers[":path"] === ECHO.meet.path) answer(stream);
    else handler(stream, headers);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sessions };
}

function open(port: number, options: Partial<RpcClientOptions> = {}) {
  const channel = openRpcChannel({
    address: `127.0.0.1:${port}`,
    service: "token-service",
    certificate: certificates.of("gateway"),
    idempotentMethods: IDEMPOTENT,
    ...options,
  });
  onTestFinished(() => channel.close());
  return { ...channel.methodsOf(ECHO), close: () => channel.close() };
}

/** Its connection is ready, so that no call goes the way of grpc-js. */
async function openReady(port: number, options: Partial<RpcClientOptions> = {}) {
  const methods = open(port, options);
  await methods.meet("", context());
  return methods;
}

const context = (budgetMs = 60_000): CallContext => newCallContext({ budgetMs });

const GRPC = { ":status": 200, "content-type": "application/grpc" };

function frame(message: string | Buffer): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, Buffer.from(message)]);
}

function answer(stream: ServerHttp2Stream, body = frame("answer"), trailers: OutgoingHttpHeaders = {}): void {
  stream.respond(GRPC, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0", ...trailers }));
  stream.end(body);
}

const refuse = (stream: ServerHttp2Stream, headers: OutgoingHttpHeaders) =>
  stream.respond({ ...GRPC, ...headers }, { endStream: true });

const unavailable = (stream: ServerHttp2Stream) =>
  refuse(stream, { "grpc-status": `${status.UNAVAILABLE}`, "grpc-message": "not%20now" });

test("a call goes the way of grpc-js while no connection is ready, and then the short way", async () => {
  const agents: (string | undefined)[] = [];
  const peer = await serve((stream, { "user-agent": agent }) => {
    agents.push(agent?.split("/")[0]);
    answer(stream);
  });
  const { say } = open(peer.port);
  for (let round = 0; round < 3; round += 1) await say("", context());
  expect(agents).toEqual(["grpc-node-js", "gatehouse", "gatehouse"]);
});

test("GOAWAY: calls under way end, and the next one goes over a new session", async () => {
  const streams: ServerHttp2Stream[] = [];
  const peer = await serve((stream) => streams.push(stream));
  const { say } = await openReady(peer.port);
  const first = say("", context());
  await expect.poll(() => streams.length).toBe(1);
  peer.sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR);
  await expect.poll(() => peer.sessions.length).toBe(2);
  const second = say("", context());
  await expect.poll(() => streams.length).toBe(2);
  for (const stream of streams) answer(stream);
  expect(await Promise.all([first, second])).toEqual(["answer", "answer"]);
});

test("a peer that no longer answers is left, and its calls fail long before their deadline", async () => {
  const peer = await serve(() => undefined);
  const edge = await openEdge(peer.port);
  onTestFinished(() => edge.close());
  const { say } = await openReady(edge.port, { deadAfterMs: 400 });
  const call = say("", context()).catch((error: unknown) => error);
  await expect.poll(() => peer.sessions.length).toBe(1);
  await edge.set("silent");
  expect(await call).toMatchObject({
    code: "service_unavailable",
    cause: { code: status.UNAVAILABLE, details: "Connection dropped" },
  });
});

test("a peer that is slow and answers pings is not left", async () => {
  const peer = await serve((stream) => setTimeout(() => answer(stream), 1_200));
  const { say } = await openReady(peer.port, { deadAfterMs: 200 });
  expect(await say("", context())).toBe("answer");
  expect(peer.sessions).toHaveLength(1);
});

test("a connection that is cut fails its calls, and the next call has a new one", async () => {
  let isCut = false;
  const peer = await serve((stream) => {
    if (isCut) answer(stream);
    else stream.session?.socket.destroy();
    isCut = true;
  });
  const { say } = await openReady(peer.port);
  await expect(say("", context())).rejects.toMatchObject({
    code: "service_unavailable",
    cause: { code: status.UNAVAILABLE },
  });
  expect(await say("", context())).toBe("answer");
});

test("an error has its code, its text without the percent signs, and its details, with and without an answer before", async () => {
  const error = toRpcError(new DomainError("too_many_requests", "später", { retryAfterMs: 2_500 }));
  const details = error.metadata?.get("grpc-status-details-bin")[0] as Buffer;
  const trailers = {
    "grpc-status": `${error.code}`,
    "grpc-message": "sp%C3%A4ter %23%2",
    "grpc-status-details-bin": details.toString("base64"),
  };
  const peer = await serve((stream, { ":path": path }) =>
    path === ECHO.say.path ? refuse(stream, trailers) : answer(stream, frame(""), trailers),
  );
  const { say, read } = await openReady(peer.port);
  for (const method of [say, read]) {
    await expect(method("", context())).rejects.toMatchObject({
      code: "too_many_requests",
      message: "später",
      retryAfterMs: 2_500,
    });
  }
});

test.each([
  ["sp%C3%A4ter %23", "später #"],
  ["100%", "100%"],
])("the text %j is read as %j", async (sent, read) => {
  const peer = await serve((stream) => refuse(stream, { "grpc-status": "5", "grpc-message": sent }));
  await expect((await openReady(peer.port)).say("", context())).rejects.toMatchObject({
    cause: { code: status.NOT_FOUND, details: read },
  });
});

test.each([
  ["over 4 MiB", frame(Buffer.alloc(4 * 1024 * 1024 + 1)), "service_unavailable", status.RESOURCE_EXHAUSTED],
  ["in two messages", Buffer.concat([frame("a"), frame("b")]), "internal_error", status.INTERNAL],
  ["without a message", Buffer.alloc(0), "internal_error", status.INTERNAL],
  ["compressed", Buffer.from([1, 0, 0, 0, 0]), "internal_error", status.INTERNAL],
  ["cut short", frame("answer").subarray(0, 8), "internal_error", status.INTERNAL],
])("a response %s is an error", async (_what, body, code, cause) => {
  const peer = await serve((stream) => answer(stream, body));
  await expect((await openReady(peer.port)).say("", context())).rejects.toMatchObject({
    code,
    cause: { code: cause },
  });
});

test("a response of 4 MiB in many pieces is read", async () => {
  const peer = await serve((stream) => answer(stream, frame(Buffer.alloc(4 * 1024 * 1024, "x"))));
  expect(await (await openReady(peer.port)).say("", context())).toHaveLength(4 * 1024 * 1024);
});

test.each([
  [401, status.UNAUTHENTICATED],
  [404, status.UNIMPLEMENTED],
  [418, status.UNKNOWN],
  [503, status.UNAVAILABLE],
])("HTTP status %s without a gRPC status is %s", async (http, code) => {
  const peer = await serve((stream) => {
    stream.respond({ ":status": http, "content-type": "text/html" });
    stream.end("<p>");
  });
  await expect((await openReady(peer.port)).say("", context())).rejects.toMatchObject({ cause: { code } });
});

test("a deadline is sent, ends the call here, and cancels it at the peer", async () => {
  const served = Promise.withResolvers<[ServerHttp2Stream, IncomingHttpHeaders]>();
  const peer = await serve((...call) => served.resolve(call));
  const { say } = await openReady(peer.port);
  const call = say("", context(1_000)).catch((error: unknown) => error);
  const [stream, headers] = await served.promise;
  const closed = once(stream, "close");
  expect(
    Number.parseInt(/^(\d+)m$/.exec(headers["grpc-timeout"] as string)?.[1] ?? "", 10),
  ).toBeLessThanOrEqual(1_000);
  expect(await call).toMatchObject({
    code: "service_unavailable",
    cause: { code: status.DEADLINE_EXCEEDED },
  });
  await closed;
  expect(stream.rstCode).toBe(constants.NGHTTP2_CANCEL);
});

test("a call whose deadline has passed is not sent", async () => {
  let served = 0;
  const peer = await serve((stream) => {
    served += 1;
    answer(stream);
  });
  const { say } = await openReady(peer.port);
  await say("", context());
  await expect(say("", context(-1))).rejects.toMatchObject({ cause: { code: status.DEADLINE_EXCEEDED } });
  await say("", context());
  expect(served).toBe(2);
});

test("a call that the peer was not ready for is repeated if it is idempotent, once; others are not", async () => {
  const served: string[] = [];
  const peer = await serve((stream, { ":path": path = "", "grpc-previous-rpc-attempts": attempts = "" }) => {
    served.push(`${path.slice("/test.Echo/".length)}${attempts}`);
    unavailable(stream);
  });
  const { say, read } = await openReady(peer.port);
  for (const method of [say, read]) {
    await expect(method("", context())).rejects.toMatchObject({ cause: { details: "not now" } });
  }
  expect(served).toEqual(["Say", "Read", "Read1"]);
});

test("an idempotent call whose peer dies between the beginning and the end of its answer is repeated; others are not", async () => {
  let served = 0;
  const peer = await serve((stream) => {
    served += 1;
    if (served % 2 === 0) return answer(stream);
    stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
    stream.write(frame("half").subarray(0, 3), () => stream.session?.destroy());
  });
  const { say, read } = await openReady(peer.port);
  await read("", context());
  expect(served).toBe(2);
  await expect(say("", context())).rejects.toMatchObject({ cause: { code: status.UNAVAILABLE } });
  expect(served).toBe(3);
});

test("a call that its peer has refused in the middle of an answer is not repeated", async () => {
  let served = 0;
  const peer = await serve((stream) => {
    served += 1;
    answer(stream, frame(""), { "grpc-status": `${status.UNAVAILABLE}` });
  });
  await expect((await openReady(peer.port)).read("", context())).rejects.toMatchObject({
    code: "service_unavailable",
  });
  expect(served).toBe(1);
});

test("repeated calls are at most 100 at first, however many fail", async () => {
  let served = 0;
  const peer = await serve((stream) => {
    served += 1;
    unavailable(stream);
  });
  const { read } = await openReady(peer.port);
  for (let round = 0; round < 300; round += 1) await read("", context()).catch(() => undefined);
  // A call and its repetition take one of the hundred each.
  expect(served).toBe(350);
});

test("a stream that is refused before it began is sent again, also of a method that is not idempotent, once", async () => {
  let served = 0;
  const peer = await serve((stream, { "x-request-id": requestId }) => {
    served += 1;
    if (served === 1 || requestId === "never") stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else answer(stream);
  });
  const { say } = await openReady(peer.port);
  expect(await say("", context())).toBe("answer");
  expect(served).toBe(2);
  await expect(say("", { ...context(), requestId: "never" })).rejects.toMatchObject({
    code: "service_unavailable",
  });
  expect(served).toBe(4);
});

test("more calls than the peer takes at once wait for their turn", async () => {
  let now = 0;
  let most = 0;
  const handler: Handler = (stream) => {
    now += 1;
    most = Math.max(most, now);
    setTimeout(() => answer(stream), 5);
    stream.on("close", () => {
      now -= 1;
    });
  };
  const peer = await serve(handler, { settings: { maxConcurrentStreams: 3 } });
  const { say } = await openReady(peer.port);
  const answers = await Promise.all(Array.from({ length: 50 }, () => say("", context())));
  expect(new Set(answers)).toEqual(new Set(["answer"]));
  expect(most).toBeLessThanOrEqual(3);
});

test("close fails the calls that are open, that wait, and that come later", async () => {
  let served = 0;
  const peer = await serve(
    () => {
      served += 1;
    },
    { settings: { maxConcurrentStreams: 2 } },
  );
  const { say, close } = await openReady(peer.port);
  const calls = Array.from({ length: 4 }, () => say("", context()));
  await expect.poll(() => served).toBe(2);
  close();
  calls.push(say("", context()));
  for (const outcome of await Promise.allSettled(calls)) {
    expect(outcome).toMatchObject({
      reason: { code: "service_unavailable", cause: { details: "Channel closed" } },
    });
  }
  await expect.poll(() => peer.sessions[0]?.destroyed).toBe(true);
});

test("a peer with the certificate of another service gets no call", async () => {
  let served = 0;
  const peer = await serve(
    () => {
      served += 1;
    },
    {},
    "identity-service",
  );
  await expect(open(peer.port).say("", context())).rejects.toMatchObject({
    code: "service_unavailable",
    cause: { details: expect.stringContaining("expected token-service, the peer is identity-service") },
  });
  expect(served).toBe(0);
});

test("a new connection shows the certificate of now, and names the service it wants", async () => {
  const shown: unknown[] = [];
  const peer = await serve((stream) => {
    const socket = stream.session?.socket as TLSSocket & { servername?: string };
    shown.push(socket.getPeerCertificate().subjectaltname?.split(/[/,]/)[3], socket.servername);
    answer(stream);
  });
  let { material } = certificates.of("gateway");
  const listeners: ((now: typeof material) => void)[] = [];
  const add = (listener: (now: typeof material) => void) => {
    listeners.push(listener);
    process.nextTick(listener, material);
  };
  const certificate = {
    addCaCertificateListener: add,
    addIdentityCertificateListener: add,
    removeCaCertificateListener: () => undefined,
    removeIdentityCertificateListener: () => undefined,
  } as Partial<ProcessCertificate> as ProcessCertificate;
  const { say } = await openReady(peer.port, { certificate });
  await say("", context());
  material = certificates.of("audit-service").material;
  for (const listener of listeners) listener(material);
  await say("", context());
  peer.sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR);
  await expect.poll(() => peer.sessions.length).toBe(2);
  await say("", context());
  const name = "token-service";
  expect(shown).toEqual(["gateway", name, "gateway", name, "audit-service", name]);
});

test("an address that a name no longer has gets no calls, and those under way there end", async () => {
  const streams: ServerHttp2Stream[] = [];
  const peer = await serve((stream) => streams.push(stream));
  let addresses = ["127.0.0.1"];
  const lookup = async () => addresses.map((address) => ({ address, family: 4 }));
  vi.spyOn(dns.promises, "lookup").mockImplementation(lookup as unknown as typeof dns.promises.lookup);
  const { say } = await openReady(peer.port, { address: `some.test:${peer.port}` });
  const first = say("", context());
  await expect.poll(() => streams.length).toBe(1);
  addresses = ["127.0.0.2"];
  const isAway = () =>
    say("", context(300)).then(
      () => false,
      ({ cause }: DomainError) => (cause as { code?: number }).code === status.UNAVAILABLE,
    );
  await expect.poll(isAway).toBe(true);
  const [stream] = streams;
  if (stream !== undefined) answer(stream);
  expect(await first).toBe("answer");
  await expect.poll(() => peer.sessions[0]?.destroyed).toBe(true);
});

test("a value that would begin another header is not sent", async () => {
  const peer = await serve((stream) => answer(stream));
  const actor = { userId: "u", role: "USER\0x-actor-session-id\0other", sessionId: "s" };
  await expect((await openReady(peer.port)).say("", { ...context(), actor })).rejects.toThrow(
    "illegal characters",
  );
});
