import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import type { Verification } from "#token-client/principal.ts";
import { statuses } from "../testing/raw-socket.ts";
import {
  HOST,
  principalWith,
  routesOf,
  shippedAccess,
  testGateway,
  verifierOfUsers,
} from "../testing/test-gateway.ts";
import { type OpenExchange, OpenExchanges } from "./open-exchanges.ts";

const REVOKED: Verification = { kind: "inactive", reason: "revoked" };
const EXPIRED: Verification = { kind: "inactive", reason: "expired" };

let serve: (request: IncomingMessage, response: ServerResponse) => void;
let gateway: ReturnType<typeof testGateway>;
let metricsOfGateway: Metrics;
let port = 0;
const verdicts = new Map<string, Verification | Error>();
const users = verifierOfUsers(verdicts);
/** Tokens that were verified, in order. */
const looks: string[] = [];
const sockets = new Set<Socket>();
const underWay = new Set<ServerResponse>();
const upstream = createServer((request, response) => {
  underWay.add(response);
  response.once("close", () => underWay.delete(response));
  serve(request, response);
});

beforeEach(async () => {
  verdicts.clear();
  looks.length = 0;
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const methods = { GET: { roles: ["USER"] }, POST: { roles: ["USER"], action: "a.make" } };
  const route = { upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`, methods };
  const rateLimit = {
    perUser: { calls: 100_000, perSeconds: 1 },
    perAddress: { calls: 100_000, perSeconds: 1 },
  };
  const approved = { roles: ["USER", "ADMIN"], action: "a.make", approval: { fields: ["/amount"], acr: 3 } };
  metricsOfGateway = createMetrics("gateway");
  gateway = testGateway({
    metrics: metricsOfGateway,
    routes: routesOf([
      { ...route, prefix: "/a", rateLimit, timeoutMs: 60_000, streaming: true, minBodyBytesPerS: 0 },
      { ...route, prefix: "/few", rateLimit, maxOpenPerCaller: 2 },
      { ...route, prefix: "/approved", rateLimit, maxOpenPerCaller: 2, methods: { POST: approved } },
      { ...route, prefix: "/open", rateLimit, methods: { GET: { auth: "public" } }, maxOpenPerCaller: 2 },
    ]),
    verifier: {
      ...users,
      verify: (token) => {
        looks.push(token);
        return users.verify(token);
      },
    },
    isTrustedProxy: () => true,
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  upstream.closeAllConnections();
  upstream.close();
  await gateway.app.close();
});

/** An event each 50 ms, without end. */
function events(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const timer = setInterval(() => response.write("data: x\n\n"), 50);
  response.once("close", () => clearInterval(timer));
}

function call(method: string, path: string, user: string, ...headers: string[]) {
  const socket = connect({ port, host: "127.0.0.1" });
  sockets.add(socket);
  const connection = { socket, text: "", isClosed: false };
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => {
    connection.text += chunk.toString("latin1");
  });
  socket.on("close", () => {
    connection.isClosed = true;
  });
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${HOST}`, ...headers];
  if (user !== "") lines.push(`Authorization: Bearer ${user}`);
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  return connection;
}

async function openExchanges(): Promise<number> {
  return Number(/^gatehouse_open_exchanges\b.* (\d+)$/m.exec(await metricsOfGateway.render())?.[1]);
}

async function answerTo(user: string): Promise<string> {
  const connection = call("GET", "/few", user, "Connection: close");
  await expect.poll(() => connection.isClosed).toBe(true);
  return connection.text;
}

describe("a body that is read before its call is forwarded", () => {
  const APPROVED = ["Content-Type: application/json", "Transfer-Encoding: chunked"];

  test("ends with its session, and gives its place back", async () => {
    const reading = call("POST", "/approved", "user", ...APPROVED);
    reading.socket.write("1\r\n{\r\n");
    await expect.poll(() => looks.length).toBeGreaterThan(1);
    expect(reading.isClosed).toBe(false);
    verdicts.set("user", REVOKED);
    await expect.poll(() => reading.isClosed).toBe(true);
    expect(statuses(reading.text)).toEqual([401]);
    expect(reading.text).toContain('"token_invalid"');
    verdicts.delete("user");
    for (const text of ["whole", "gone"]) {
      const next = [1, 2].map(() => call("POST", "/approved", "user", ...APPROVED));
      await expect.poll(async () => openExchanges()).toBe(2);
      for (const { socket } of next)
        if (text === "whole") socket.write("2\r\n{}\r\n0\r\n\r\n");
        else socket.destroy();
      await expect.poll(async () => openExchanges()).toBe(0);
    }
  });

  test("has a place among its user's calls of the route", async () => {
    const readings = ["user", "user", "user", "admin"].map((name) => {
      const reading = call("POST", "/approved", name, ...APPROVED);
      reading.socket.write("1\r\n{\r\n");
      return reading;
    });
    await expect.poll(() => readings.filter(({ isClosed }) => isClosed).length).toBe(1);
    expect(readings.flatMap(({ text }) => statuses(text))).toEqual([429]);
  });
});

describe("an answer that streams ends with its token", () => {
  test.each([
    { why: "is revoked", verdict: REVOKED },
    { why: "expires", verdict: EXPIRED },
    { why: "cannot be verified", verdict: new Error("token-service is away") },
  ])("when it $why", async ({ verdict }) => {
    serve = events;
    const mine = call("GET", "/a/events", "one");
    const other = call("GET", "/a/events", "two");
    await expect.poll(() => [mine.text, other.text].every((text) => text.includes("data"))).toBe(true);
    // Verified once by the call, then by the sweep.
    await expect.poll(() => looks.filter((token) => token === "one").length).toBeGreaterThan(1);
    expect(mine.isClosed).toBe(false);
    verdicts.set("one", verdict);
    await expect.poll(() => mine.isClosed).toBe(true);
    await expect.poll(() => underWay.size).toBe(1);
    expect(other.isClosed).toBe(false);
    await expect.poll(() => gateway.app.server.listening).toBe(true);
  });

  test("a call that changes something and is cut this way has the outcome unknown", async () => {
    serve = events;
    const connection = call("POST", "/a", "one", "Content-Length: 0");
    await expect.poll(() => connection.text).toContain("data");
    verdicts.set("one", REVOKED);
    await expect.poll(() => connection.isClosed).toBe(true);
    await expect.poll(() => gateway.entries.length).toBe(2);
    expect(gateway.entries[1]).toMatchObject({ outcome: "unknown", errorCode: "token_invalid" });
  });

  test("a download whose end waits for its client ends likewise", async () => {
    serve = (_request, response) => void response.end(Buffer.alloc(30_000_000));
    const connection = call("GET", "/a/file", "one");
    connection.socket.pause();
    await sleep(500);
    verdicts.set("one", REVOKED);
    await expect.poll(() => underWay.size).toBe(0);
    connection.socket.resume();
    await expect.poll(() => connection.isClosed).toBe(true);
    expect(connection.text.length).toBeLessThan(30_000_000);
  });

  test.each([
    { what: "a whole answer", verdict: REVOKED, answer: (response: ServerResponse) => response.end("data") },
    { what: "a whole answer", verdict: EXPIRED, answer: (response: ServerResponse) => response.end("data") },
    {
      what: "a begun answer",
      verdict: REVOKED,
      answer: (response: ServerResponse) => response.write("data"),
    },
  ])(
    "$what that waits for an earlier one of its connection is not sent: $verdict.reason",
    async ({ verdict, answer }) => {
      let answerEarlier = () => {};
      serve = (request, response) => {
        if (request.url === "/a/later") answer(response);
        else answerEarlier = () => response.end("earlier");
      };
      const looksAtLater = () => looks.filter((token) => token === "one").length;
      const connection = call("GET", "/a/earlier", "two");
      connection.socket.write(`GET /a/later HTTP/1.1\r\nHost: ${HOST}\r\nAuthorization: Bearer one\r\n\r\n`);
      // Verified by the call, then by the sweep. The upstream's answer has come by then.
      await expect.poll(looksAtLater).toBe(2);
      verdicts.set("one", verdict);
      await expect.poll(looksAtLater).toBe(3);
      answerEarlier();
      await expect.poll(() => connection.isClosed).toBe(true);
      expect(connection.text).not.toContain("data");
      await expect.poll(() => underWay.size).toBe(0);
    },
  );

  test("a reading call that waits for its answer is 401 when its token is revoked", async () => {
    serve = () => undefined;
    const connection = call("GET", "/a", "one");
    await expect.poll(() => underWay.size).toBe(1);
    verdicts.set("one", REVOKED);
    await expect.poll(() => statuses(connection.text)).toEqual([401]);
    expect(connection.text).toContain('"token_invalid"');
  });

  test.each([
    { why: "is revoked", verdict: REVOKED },
    { why: "has expired", verdict: EXPIRED },
    { why: "cannot be verified", verdict: new Error("token-service is away") },
  ])(
    "a call that may have had its effect gets no answer after which clients call again when its token $why",
    async ({ verdict }) => {
      serve = () => undefined;
      const connection = call("POST", "/a", "one", "Content-Length: 0");
      await expect.poll(() => underWay.size).toBe(1);
      verdicts.set("one", verdict);
      await expect.poll(() => statuses(connection.text)).toEqual([504]);
      expect(connection.text).toContain('"upstream_timeout"');
      await expect.poll(() => gateway.entries.length).toBe(2);
      expect(gateway.entries[1]).toMatchObject({ outcome: "unknown", httpStatus: 504 });
    },
  );

  test("a token that expires while its call waits for an answer does not end the call", async () => {
    serve = (_request, response) => void setTimeout(() => response.end("ok"), 3_000);
    const connection = call("GET", "/a", "one");
    await expect.poll(() => underWay.size).toBe(1);
    verdicts.set("one", EXPIRED);
    await expect.poll(() => statuses(connection.text)).toEqual([200]);
  });

  test("a call of our own whose body comes after its session has ended is not carried out", async () => {
    const body = '{"scope":"all"}';
    const headers = ["Content-Type: application/json", `Content-Length: ${body.length}`];
    const connection = call("POST", "/auth/logout", "one", ...headers);
    await expect.poll(() => looks).toContain("one");
    verdicts.set("one", REVOKED);
    connection.socket.write(body);
    await expect.poll(() => statuses(connection.text)).toEqual([401]);
    expect(gateway.entries.filter(({ kind }) => kind === "intent")).toEqual([]);
  });

  test("a public route's streams go on", async () => {
    serve = events;
    const connection = call("GET", "/open", "");
    await expect.poll(() => connection.text).toContain("data");
    const other = call("GET", "/a/events", "one");
    await expect.poll(() => other.text).toContain("data");
    for (const user of ["", "one"]) verdicts.set(user, REVOKED);
    // The same sweep looks at both.
    await expect.poll(() => other.isClosed).toBe(true);
    expect(connection.isClosed).toBe(false);
  });
});

test("clients that leave in the middle of a body, behind an earlier call, are no failures of the upstream", async () => {
  serve = (request, response) => {
    if (request.url === "/a/ok") response.end("ok");
    else request.resume();
  };
  const connections = ["one", "one", "two", "two", "three", "three"].map((user) => {
    const connection = call("GET", "/a/earlier", user);
    const head = ["POST /a/later HTTP/1.1", `Host: ${HOST}`, `Authorization: Bearer ${user}`];
    connection.socket.write(`${head.join("\r\n")}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n`);
    return connection;
  });
  await expect.poll(() => underWay.size).toBe(2 * connections.length);
  for (const { socket } of connections) socket.destroy();
  await expect.poll(() => underWay.size).toBe(0);
  const other = call("GET", "/a/ok", "four");
  await expect.poll(() => statuses(other.text)).toEqual([200]);
  const outcomes = () => gateway.entries.filter(({ kind }) => kind === "outcome");
  await expect.poll(() => outcomes().length).toBe(connections.length);
  for (const entry of outcomes()) {
    expect(entry).toMatchObject({ outcome: "unknown", httpStatus: 499 });
    expect(entry).not.toHaveProperty("errorCode");
  }
});

describe("a caller's share of what is open", () => {
  test("a user with 1,200 slow uploads leaves room for another, and gets its own back", async () => {
    serve = (request, response) => {
      if (request.method === "GET") response.end("ok");
      else request.resume().once("end", () => response.end("ok"));
    };
    const uploads = Array.from({ length: 1_200 }, () => call("POST", "/a", "one", "Content-Length: 100000"));
    for (const { socket } of uploads) socket.write("x");
    await expect.poll(() => uploads.filter(({ isClosed }) => !isClosed).length).toBe(32);
    // Some answers are lost with their connections: what the client goes on sending resets them. On a busy machine the
    // head of some comes too late (408).
    const answers = uploads.flatMap(({ text }) => statuses(text));
    expect(answers).toContain(429);
    expect(answers.filter((status) => status !== 429 && status !== 408)).toEqual([]);
    const other = call("GET", "/a", "two");
    await expect.poll(() => statuses(other.text)).toEqual([200]);
    await expect.poll(() => underWay.size).toBe(32);
    for (const { socket } of uploads) socket.destroy();
    await expect.poll(() => underWay.size).toBe(0);
    const again = call("GET", "/a", "one");
    await expect.poll(() => statuses(again.text)).toEqual([200]);
  });

  test("a call has its place until its client has taken the answer", async () => {
    serve = (_request, response) => void response.end(Buffer.alloc(30_000_000));
    const slow = [1, 2].map(() => call("GET", "/few", "one"));
    for (const { socket } of slow) socket.pause();
    await expect.poll(() => underWay.size).toBe(2);
    const third = call("GET", "/few", "one");
    await expect.poll(() => statuses(third.text)).toEqual([429]);
    expect(third.text).toMatch(/retry-after: 1/i);
    for (const { socket } of slow) socket.resume();
    await expect.poll(() => slow.map(({ text }) => text.length > 30_000_000)).toEqual([true, true]);
    const fourth = call("GET", "/few", "one");
    await expect.poll(() => statuses(fourth.text)).toEqual([200]);
  });

  test("on public methods it is the network's, and a wide IPv6 network has one too", async () => {
    serve = events;
    const from = (address: string) => call("GET", "/open", "", `X-Forwarded-For: ${address}`);
    const open = async (addresses: string[]) => {
      const all: number[] = [];
      for (const address of addresses) {
        const connection = from(address);
        await expect.poll(() => connection.text).not.toBe("");
        all.push(...statuses(connection.text));
      }
      return all;
    };
    expect(await open(["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"])).toEqual([200, 200, 429, 200]);
    const networks = Array.from({ length: 10 }, (_, index) => `2001:db8:1:${index.toString(16)}::1`);
    // Ten /64s of one /56, which has four times as much as one /64.
    expect((await open(networks)).filter((status) => status === 200)).toHaveLength(8);
  });

  test("calls that wait for an earlier one of their connection give their places back when it ends", async () => {
    serve = () => undefined;
    const head = `GET /few HTTP/1.1\r\nHost: ${HOST}\r\nAuthorization: Bearer one\r\n\r\n`;
    const connection = call("GET", "/few", "one");
    connection.socket.write(head);
    await expect.poll(() => underWay.size).toBe(2);
    serve = (_request, response) => void response.end("ok");
    expect(statuses(await answerTo("one"))).toEqual([429]);
    connection.socket.destroy();
    await expect.poll(async () => statuses(await answerTo("one")), { interval: 200 }).toEqual([200]);
    expect(underWay.size).toBe(0);
  });

  test.each([
    { what: "answered", expected: 200 },
    { what: "too large", expected: 413 },
    { what: "broken off by its upstream", expected: 502 },
  ])("a call that was $what gives its place back", async ({ expected }) => {
    serve = (request, response) => {
      if (expected === 200) response.end("ok");
      else request.socket.destroy();
    };
    for (let turn = 0; turn < 5; turn += 1) {
      const length = expected === 413 ? "Content-Length: 99999999" : "Content-Length: 0";
      const connection = call("POST", "/few", "one", length, "Connection: close");
      await expect.poll(() => connection.isClosed).toBe(true);
      expect(statuses(connection.text)).toEqual([expected]);
    }
  });
});

describe("the sweep over what is open", () => {
  const verdicts: ((verdict: Verification) => void)[] = [];
  const ended: string[] = [];
  const lines: string[] = [];
  let mostAtOnce = 0;
  let open: OpenExchanges;
  let metrics: Metrics;

  beforeEach(() => {
    vi.useFakeTimers();
    verdicts.length = 0;
    ended.length = 0;
    lines.length = 0;
    mostAtOnce = 0;
    const verify = (token: string) => {
      if (token.startsWith("unverifiable")) throw new Error("a defect of the verifier");
      if (token.startsWith("revoked")) return revoked;
      const asked = new Promise<Verification>((resolve) => verdicts.push(resolve));
      mostAtOnce = Math.max(mostAtOnce, verdicts.length);
      return asked;
    };
    metrics = createMetrics("test");
    const logger = createLogger("gateway", "info", { write: (line) => void lines.push(line) });
    open = new OpenExchanges({ verifier: { verify }, access: shippedAccess(), logger, metrics });
  });
  afterEach(() => {
    open.close();
    vi.useRealTimers();
  });

  const enter = (name: string, own: Partial<OpenExchange> = {}, permissions: string[] = []) =>
    open.enter(
      {
        call: { accessToken: name, policy: { auth: "authenticated", permissions }, startedMs: 0 },
        isWaiting: false,
        isGone: false,
        abandon: () => undefined,
        fail: ({ code }) => ended.push(`${name} ${code}`),
        ...own,
      },
      { kind: "calls", callers: [], max: 1, free: 1 },
    );
  const answerAll = async (verdict: Verification) => {
    for (let round = 0; round < 10; round += 1) {
      for (const answer of verdicts.splice(0)) answer(verdict);
      await vi.advanceTimersByTimeAsync(0);
    }
  };
  const active: Verification = { kind: "active", principal: principalWith("USER") };
  const revoked = { kind: "inactive", reason: "revoked" } as Verification;

  test("asks token-service for some tokens at a time, so that new calls find a place, and ends nobody for it", async () => {
    for (let index = 0; index < 1_200; index += 1) enter(`token ${index}`);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(verdicts).toHaveLength(500);
    await answerAll(active);
    expect([mostAtOnce, ended]).toEqual([500, []]);
  });

  test("ends what the access file does not allow any more", async () => {
    enter("allowed", {}, ["payments:read"]);
    enter("withdrawn", {}, ["audit:read"]);
    await vi.advanceTimersByTimeAsync(1_000);
    await answerAll(active);
    expect(ended).toEqual(["withdrawn forbidden"]);
  });

  test("goes on after a slow one: the next sweep waits for it, and asks again", async () => {
    enter("token");
    await vi.advanceTimersByTimeAsync(3_000);
    expect(verdicts).toHaveLength(1);
    await answerAll(active);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(verdicts).toHaveLength(1);
    await answerAll(revoked);
    expect(ended).toEqual(["token token_invalid"]);
  });

  test("counts once what takes its time to end, asks for it no more, and reports it until it has ended", async () => {
    enter("token");
    await vi.advanceTimersByTimeAsync(1_000);
    await answerAll(revoked);
    await vi.advanceTimersByTimeAsync(3_000);
    expect([verdicts, ended]).toEqual([[], Array(4).fill("token token_invalid")]);
    expect(await metrics.render()).toMatch(/exchanges_ended_total\{.*code="token_invalid".*\} 1$/m);
  });

  test.each([
    ["is revoked", "revoked first", {}],
    ["cannot be verified", "unverifiable first", {}],
    ["is revoked by token-service's answer", "first", {}],
    ["belongs to a client that has gone", "first", { isGone: true }],
  ])("one that throws when its token %s keeps it from no other, and is logged", async (_why, token, own) => {
    const defect = () => {
      throw new Error("a defect of the exchange");
    };
    enter(token, { ...own, fail: defect, abandon: defect });
    for (const name of ["revoked", "unverifiable", "asked"]) enter(name);
    await vi.advanceTimersByTimeAsync(1_000);
    await answerAll(revoked);
    expect(ended.toSorted()).toEqual([
      "asked token_invalid",
      "revoked token_invalid",
      "unverifiable service_unavailable",
    ]);
    const lineOfSweep = { level: "error", err: { message: "a defect of the exchange" }, exchanges: 1 };
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([lineOfSweep]);
    // The next sweep fails them all again.
    await vi.advanceTimersByTimeAsync(1_000);
    expect([ended.length, lines.length]).toEqual([6, 2]);
  });
});
