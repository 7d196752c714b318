import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { createAuthority, issueCertificate, type Pair } from "#deploy/certificate-pair.ts";
import { type DatabaseSocketOptions, openDatabaseSocket } from "./database-socket.ts";

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

let authority: Pair;
let stranger: Pair;
/** For `localhost` and 127.0.0.1. */
let pair: Pair;
let server: Server | undefined;
const sockets = new Set<Socket>();
let heard: Buffer;
/** The name that the client asked for in TLS; false if it named none. */
let namedServer: unknown;

beforeAll(async () => {
  const now = new Date();
  [authority, stranger] = await Promise.all([createAuthority(now), createAuthority(now)]);
  pair = await issueCertificate(authority, "token-service", now);
});

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  server?.close();
});

/** A server that answers SSLRequest so, and goes on in TLS; then it repeats what it hears. */
async function listen(answer: string): Promise<number> {
  heard = Buffer.alloc(0);
  const listening = createServer((raw) => {
    sockets.add(raw);
    raw.on("error", () => undefined);
    raw.once("data", (request) => {
      heard = request;
      raw.write(answer);
      if (answer[0] !== "S") return;
      const secured = new TLSSocket(raw, { isServer: true, cert: pair.certificate, key: pair.key });
      secured.on("error", () => undefined);
      secured.on("data", (chunk) => {
        namedServer = (secured as unknown as { servername: unknown }).servername;
        secured.write(chunk);
      });
    });
  });
  server = listening;
  await new Promise<void>((resolve) => listening.listen(0, "0.0.0.0", resolve));
  return (listening.address() as AddressInfo).port;
}

async function open(port: number, more: Partial<DatabaseSocketOptions> = {}): Promise<Socket> {
  const signal = new AbortController().signal;
  const ca = Buffer.from(authority.certificate);
  const socket = await openDatabaseSocket({ host: "127.0.0.1", port, ca, timeoutMs: 3_000, signal, ...more });
  sockets.add(socket);
  return socket;
}

/** How many connections the server has. */
function openCount(): Promise<number> {
  return new Promise((resolve) => server?.getConnections((_error, count) => resolve(count)));
}

test.each([
  ["127.0.0.1", false],
  ["localhost", "localhost"],
])("with a CA the connection is TLS to the host that was named: %s", async (host, expected) => {
  const socket = (await open(await listen("S"), { host })) as TLSSocket;
  expect([socket.encrypted, socket.authorized]).toEqual([true, true]);
  expect(heard).toEqual(SSL_REQUEST);
  socket.write("hello");
  expect(String(await new Promise((resolve) => socket.once("data", resolve)))).toBe("hello");
  expect(namedServer).toBe(expected); // no address: RFC 6066 forbids it
});

test("a certificate of another authority is refused", async () => {
  const ca = Buffer.from(stranger.certificate);
  await expect(open(await listen("S"), { ca })).rejects.toThrow(/certificate/);
});

test("a certificate for another host is refused", async () => {
  const opening = open(await listen("S"), { host: "127.0.0.2" });
  await expect(opening).rejects.toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID" });
});

test.each(["N", "Sx", "E"])(
  "anything but a single S before TLS is refused, and leaves no socket: %s",
  async (answer) => {
    await expect(open(await listen(answer))).rejects.toMatchObject({
      code: "CONNECTION_NOT_ENCRYPTED",
      message: "the database does not offer TLS",
    });
    await expect.poll(openCount).toBe(0);
  },
);

test.each([
  ["without TLS", { ca: undefined }],
  ["with TLS", {}],
])("an error before a listener is added does not end the process: %s", async (_how, options) => {
  const socket = await open(await listen("S"), options);
  expect(() => socket.emit("error", new Error("early"))).not.toThrow();
});

test("without a CA no TLS is requested", async () => {
  const socket = await open(await listen("S"), { ca: undefined });
  expect(socket).not.toBeInstanceOf(TLSSocket);
  expect(heard).toHaveLength(0);
});

test("a server that sends nothing is abandoned in time", async () => {
  await expect(open(await listen(""), { timeoutMs: 200 })).rejects.toMatchObject({
    code: "CONNECT_TIMEOUT",
    message: "connecting took too long",
  });
});

test("an aborted attempt ends and leaves no socket", async () => {
  const giveUp = new AbortController();
  const opening = open(await listen(""), { signal: giveUp.signal });
  setTimeout(() => giveUp.abort(), 50);
  await expect(opening).rejects.toThrow();
  await expect.poll(openCount).toBe(0);
});

test("a server that is silent for the limit is disconnected; one that sends something is not", async () => {
  const port = await listen("N");
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  try {
    const socket = await open(port, { ca: undefined, maxSilenceMs: 5_000 });
    const failed = new Promise<{ code?: string }>((resolve) => socket.once("error", resolve));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    vi.advanceTimersByTime(2_500);
    socket.write("hello");
    await new Promise((resolve) => socket.once("data", resolve));
    vi.advanceTimersByTime(5_000);
    expect(socket.destroyed).toBe(false);
    vi.advanceTimersByTime(2_500);
    expect(await failed).toMatchObject({ code: "ETIMEDOUT", message: "the database sends nothing" });
    await closed;
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("without a silence limit nothing is watched, and a successful attempt leaves no timer", async () => {
  const port = await listen("N");
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout"] });
  try {
    await open(port, { ca: undefined });
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("a server that disconnects before it answers has closed the connection", async () => {
  const closing = createServer((raw) => raw.once("data", () => raw.end()));
  server = closing;
  await new Promise<void>((resolve) => closing.listen(0, "127.0.0.1", resolve));
  const { port } = closing.address() as AddressInfo;
  await expect(open(port)).rejects.toMatchObject({
    code: "CONNECTION_CLOSED",
    message: "the database closed the connection",
  });
});
