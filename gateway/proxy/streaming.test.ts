import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { statuses } from "../testing/raw-socket.ts";
import { HOST, routesOf, testGateway } from "../testing/test-gateway.ts";

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

let serve: Serve;
let onRecord = async () => {};
let gateway: ReturnType<typeof testGateway>;
let port = 0;
/** Calls that the upstream has not finished answering. */
const underWay = new Set<ServerResponse>();
const upstream = createServer((request, response) => {
  underWay.add(response);
  response.once("close", () => underWay.delete(response));
  serve(request, response);
});

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const methods = { GET: { roles: ["USER"] }, POST: { roles: ["USER"], action: "a.make" } };
  const route = { upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`, methods };
  gateway = testGateway({
    routes: routesOf([
      { ...route, prefix: "/a", timeoutMs: 2_000 },
      { ...route, prefix: "/slow", timeoutMs: 2_000, minBodyBytesPerS: 500 },
      { ...route, prefix: "/hints", timeoutMs: 60_000 },
      { ...route, prefix: "/events", timeoutMs: 1_000, idleTimeoutMs: 120_000 },
    ]),
    nextRecorder: () => ({
      record: async (entry) => {
        gateway.entries.push(entry);
        await onRecord();
      },
      enqueue: (entry) => void gateway.entries.push(entry),
    }),
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});

beforeEach(() => {
  // An upstream that reads nothing does not see its connection end, either.
  underWay.clear();
  gateway.entries.length = 0;
  onRecord = async () => {};
  serve = answer;
});

afterAll(async () => {
  await gateway.app.close();
  upstream.closeAllConnections();
  upstream.close();
});

/** Says how many bytes came; under `/early`, answers before they come. */
const answer: Serve = (request, response) => {
  if (request.url?.endsWith("/early")) {
    response.writeHead(403, { "content-length": 0 }).end();
    return;
  }
  let received = 0;
  request.on("data", (chunk: Buffer) => {
    received += chunk.length;
  });
  request.once("end", () => response.end(`got ${received}`));
};

/** An open connection, and what has come over it. */
function dial() {
  const socket = connect({ port, host: "127.0.0.1" });
  const connection = { socket, text: "", isClosed: false };
  socket.on("data", (chunk) => {
    connection.text += chunk.toString("latin1");
  });
  socket.on("error", () => undefined);
  socket.on("close", () => {
    connection.isClosed = true;
  });
  return connection;
}

function head(method: string, path: string, ...headers: string[]): string {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${HOST}`,
    "Authorization: Bearer user-token",
    ...headers,
  ];
  return `${lines.join("\r\n")}\r\n\r\n`;
}

test("events pass one by one, as they are made, and may be silent for as long as the route says", async () => {
  serve = (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: 1\n\n");
    setTimeout(() => response.write("data: 2\n\n"), 1_500);
  };
  const connection = dial();
  connection.socket.write(head("GET", "/events"));
  await expect.poll(() => connection.text).toContain("data: 1");
  expect(connection.text).not.toContain("data: 2");
  await expect.poll(() => connection.text).toContain("data: 2");
  connection.socket.destroy();
  await expect.poll(() => underWay.size).toBe(0);
});

describe.concurrent("what takes many seconds", () => {
  test("an upload may take longer than any single time-out while it goes on", async ({ expect }) => {
    const connection = dial();
    connection.socket.write(head("POST", "/slow", "Content-Length: 26000"));
    for (let part = 0; part < 13; part += 1) {
      connection.socket.write("x".repeat(2_000));
      await sleep(1_000);
    }
    await expect.poll(() => connection.text).toContain("got 26000");
    connection.socket.destroy();
  });

  test.for([
    { what: "trickles", bytes: 1, everyMs: 200 },
    { what: "comes at 5 KB a second", bytes: 1_000, everyMs: 200 },
  ])(
    "a body that $what is 408 after ten seconds, though it is never idle",
    async ({ bytes, everyMs }, { expect }) => {
      const connection = dial();
      connection.socket.write(head("POST", "/a", "Content-Length: 1000000"));
      const trickle = setInterval(() => connection.socket.write("x".repeat(bytes)), everyMs);
      await expect.poll(() => connection.isClosed).toBe(true);
      clearInterval(trickle);
      expect(statuses(connection.text)).toEqual([408]);
    },
  );

  test("headers that trickle end after three seconds", async ({ expect }) => {
    const connection = dial();
    connection.socket.write("GET /a HTTP/1.1\r\nX-");
    const trickle = setInterval(() => connection.socket.write("a"), 500);
    await expect.poll(() => connection.isClosed).toBe(true);
    clearInterval(trickle);
    expect(statuses(connection.text)).toEqual([408]);
  });

  test.for(["/a", "/auth/change-password"])(
    "what is left of a refused call's body to %s may take ten seconds to come, and no longer",
    async (path, { expect }) => {
      const connection = dial();
      connection.socket.write(
        `POST ${path} HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
      );
      const trickle = setInterval(() => connection.socket.write("x"), 200);
      await expect.poll(() => statuses(connection.text)).toEqual([401]);
      await expect.poll(() => connection.isClosed).toBe(true);
      clearInterval(trickle);
      expect(statuses(connection.text)).toEqual([401]);
    },
  );

  test("what is left of a forwarded body after an early answer may take ten seconds to come", async ({
    expect,
  }) => {
    const connection = dial();
    connection.socket.write(head("POST", "/a/early", "Content-Length: 1000"));
    const trickle = setInterval(() => connection.socket.write("x"), 200);
    await expect.poll(() => statuses(connection.text)).toEqual([403]);
    await expect.poll(() => connection.isClosed).toBe(true);
    clearInterval(trickle);
  });

  test("our own paths wait ten seconds for a whole body, however it trickles", async ({ expect }) => {
    const connection = dial();
    connection.socket.write(
      `POST /auth/login HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n`,
    );
    const trickle = setInterval(() => connection.socket.write("x"), 50);
    await expect.poll(() => connection.isClosed).toBe(true);
    clearInterval(trickle);
    expect(statuses(connection.text)).toEqual([408]);
  });
});

test("a body that stops is 408 once it was idle for as long as the route says", async () => {
  const connection = dial();
  connection.socket.write(`${head("POST", "/a", "Content-Length: 1000")}half`);
  await expect.poll(() => connection.isClosed).toBe(true);
  expect(statuses(connection.text)).toEqual([408]);
  expect(connection.text).toContain('"code":"request_timeout"');
  await expect.poll(() => gateway.entries.length).toBe(2);
  expect(gateway.entries[1]).toMatchObject({ outcome: "unknown", errorCode: "request_timeout" });
});

test("an upstream that takes no body is 504", async () => {
  serve = (request) => void request.pause();
  const connection = dial();
  connection.socket.write(head("POST", "/a", "Content-Length: 15000000"));
  connection.socket.write(Buffer.alloc(15_000_000));
  await expect.poll(() => statuses(connection.text)).toEqual([504]);
  connection.socket.destroy();
});

test("100-continue is sent only to an admitted and recorded call", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  onRecord = () => promise;
  const connection = dial();
  connection.socket.write(head("POST", "/a", "Content-Length: 5", "Expect: 100-continue"));
  await expect.poll(() => gateway.entries.length).toBe(1);
  await sleep(50);
  expect(connection.text).toBe("");
  resolve();
  await expect.poll(() => statuses(connection.text)).toEqual([100]);
  connection.socket.write("hello");
  await expect.poll(() => statuses(connection.text)).toEqual([100, 200]);
  connection.socket.destroy();
});

test.each(["/a", "/auth/change-password"])(
  "without a token %s is 401 instead of 100-continue, and the connection ends",
  async (path) => {
    const connection = dial();
    connection.socket.write(
      `POST ${path} HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n`,
    );
    await expect.poll(() => connection.isClosed).toBe(true);
    expect(statuses(connection.text)).toEqual([401]);
  },
);

test("early hints and trailers pass", async () => {
  serve = (_request, response) => {
    response.writeEarlyHints({ link: "</style.css>; rel=preload" });
    response.writeHead(200, { trailer: "x-checksum" });
    response.write("body");
    response.addTrailers({ "x-checksum": "abc" });
    response.end();
  };
  const connection = dial();
  connection.socket.write(head("GET", "/a"));
  await expect.poll(() => connection.text).toContain("x-checksum: abc");
  expect(statuses(connection.text)).toEqual([103, 200]);
  expect(connection.text).toContain("</style.css>; rel=preload");
  connection.socket.destroy();
});

test.each([
  { framing: "with a length", headers: { "content-length": 9 }, end: "last" },
  { framing: "in chunks", headers: {}, end: "\r\n0\r\n\r\n" },
])("an answer $framing does not end before its outcome is durable", async ({ headers, end }) => {
  const { promise: durable, resolve: keep } = Promise.withResolvers<void>();
  onRecord = async () => {
    if (gateway.entries.at(-1)?.kind === "outcome") await durable;
  };
  const { promise: started, resolve: goOn } = Promise.withResolvers<void>();
  serve = (request, response) => {
    if (request.method === "GET") return void response.end("other");
    response.writeHead(201, headers).write("first");
    void started.then(() => response.end("last"));
  };
  const connection = dial();
  connection.socket.write(head("POST", "/a", "Content-Length: 0"));
  await expect.poll(() => connection.text).toContain("first");
  goOn();
  await expect.poll(() => gateway.entries.map(({ kind }) => kind)).toEqual(["intent", "outcome"]);
  // What was sent before the whole call of another client has come.
  const other = dial();
  other.socket.write(head("GET", "/a"));
  await expect.poll(() => other.text).toContain("other");
  expect(connection.text).not.toContain(end);
  keep();
  await expect.poll(() => connection.text.endsWith(end)).toBe(true);
  for (const { socket } of [connection, other]) socket.destroy();
});

test("early hints that a client does not take are dropped, and fill no memory", async () => {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>();
  gateway.app.server.once("request", (_request, response) => resolve(response));
  const hint = `HTTP/1.1 103 Early Hints\r\nLink: </${"a".repeat(8_000)}>; rel=preload\r\n\r\n`.repeat(8);
  let written = 0;
  serve = ({ socket }) => {
    const more = () => {
      while (written < 30_000_000 && !socket.destroyed) {
        written += hint.length;
        if (!socket.write(hint)) return void socket.once("drain", more);
      }
    };
    more();
  };
  const connection = dial();
  onTestFinished(() => void connection.socket.destroy());
  connection.socket.pause();
  connection.socket.write(head("GET", "/hints"));
  await expect.poll(() => written).toBeGreaterThanOrEqual(30_000_000);
  expect((await promise).writableLength).toBeLessThan(1_000_000);
  connection.socket.destroy();
  await expect.poll(() => underWay.size).toBe(0);
});

test.each([{}, { "content-length": 2 }])(
  "a client that takes nothing of the end of its answer is cut off, too: %j",
  async (headers) => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>();
    gateway.app.server.once("request", (_request, response) => {
      // As if the kernel had no room.
      Object.assign(response.socket ?? {}, { _write: () => undefined, _writev: () => undefined });
      resolve(response);
    });
    serve = (_request, response) => void response.writeHead(200, headers).end("ok");
    const connection = dial();
    onTestFinished(() => void connection.socket.destroy());
    connection.socket.write(head("GET", "/events"));
    const answered = await promise;
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    await expect.poll(() => answered.writableEnded).toBe(true);
    // After the answer has ended in all the gateway's callbacks.
    await new Promise((ended) => void setImmediate(ended));
    vi.advanceTimersByTime(31_000);
    await expect.poll(() => answered.destroyed).toBe(true);
  },
);

test("a client that takes nothing holds the upstream up, and not our memory", async () => {
  let written = 0;
  serve = (_request, response) => {
    const chunk = Buffer.alloc(65_536);
    const more = () => {
      while (written < 400_000_000 && !response.destroyed) {
        written += chunk.length;
        if (!response.write(chunk)) return void response.once("drain", more);
      }
    };
    more();
  };
  const connection = dial();
  connection.socket.pause();
  connection.socket.write(head("GET", "/events"));
  await expect.poll(() => written).toBeGreaterThan(0);
  let before = -1;
  while (before !== written) {
    before = written;
    await sleep(300);
  }
  expect(written).toBeLessThan(40_000_000);
  connection.socket.destroy();
  await expect.poll(() => underWay.size).toBe(0);
});
