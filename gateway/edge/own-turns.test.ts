import { type AddressInfo, connect, type Server } from "node:net";
import { expect, test } from "vitest";
import type { AuditEntry } from "#audit-client/stream/audit-entry.ts";
import { dpopClient } from "#tests/support/people/dpop-client.ts";
import type { Backends } from "../backends/backends.ts";
import { type CallLimiter, createMemoryLimiter } from "../limits/call-limiter.ts";
import { HOST, send, testGateway, tokens } from "../testing/test-gateway.ts";
import { UsedProofs } from "./proofs/used-proofs.ts";

const AT_ONCE = 8;
const usedProofs = new UsedProofs({
  redis: undefined,
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
});

/** Its refreshes wait until they are answered, as those of a token-service that waits for a row. */
function gatewayWithRefreshes(overrides: Parameters<typeof testGateway>[0] = {}) {
  const asked: { token: string; answer: () => void }[] = [];
  const refreshSession: Backends["sessions"]["refreshSession"] = ({ refreshToken: token }) =>
    new Promise((resolve) => asked.push({ token, answer: () => resolve({ tokens }) }));
  const gateway = testGateway({ sessions: { refreshSession }, usedProofs, ...overrides });
  return { ...gateway, asked, answerOne: () => asked.shift()?.answer() };
}

const refreshWith = (refreshToken: string, headers = {}) =>
  ({ method: "POST", url: "/auth/refresh", body: { refreshToken }, headers }) as const;

test("of one session's refreshes eight are worked at, and a stranger's goes on at once; then the next ones do", async () => {
  const { app, asked, entries, answerOne } = gatewayWithRefreshes();
  const flood = Array.from({ length: 200 }, () => send(app, refreshWith("one")));
  await expect.poll(() => asked.length).toBe(AT_ONCE);
  void send(app, refreshWith("another"));
  await expect.poll(() => asked.length).toBe(AT_ONCE + 1);
  expect(asked.pop()?.token).toBe("another");
  // Nor has the audit log heard of those that wait.
  expect(entries).toHaveLength(AT_ONCE + 1);

  answerOne();
  await expect.poll(() => entries.length).toBe(AT_ONCE + 3);
  expect(asked).toHaveLength(AT_ONCE);
  const answering = setInterval(answerOne, 0);
  const statuses = new Set((await Promise.all(flood)).map(({ statusCode }) => statusCode));
  clearInterval(answering);
  expect([...statuses]).toEqual([200]);
});

test("whoever stole a bound refresh token fills no turns of its owner, who has the key", async () => {
  const { app, asked } = gatewayWithRefreshes();
  const [owner, thief] = await Promise.all([dpopClient(), dpopClient()]);
  const proofOf = (client: typeof owner) => client.proof({ url: "/auth/refresh", nonce: usedProofs.nonce });
  for (let call = 0; call < 20; call += 1) {
    void send(app, refreshWith("bound", { dpop: await proofOf(thief) }));
    void send(app, refreshWith("bound"));
  }
  await expect.poll(() => asked.length).toBe(2 * AT_ONCE);
  void send(app, refreshWith("bound", { dpop: await proofOf(owner) }));
  await expect.poll(() => asked.length).toBe(2 * AT_ONCE + 1);
});

test("a turn lasts until the outcome is recorded, and no longer: also after an error, and if nobody reads the answer", async () => {
  const recorded: (() => void)[] = [];
  const entries: AuditEntry[] = [];
  const record = (entry: AuditEntry) => {
    entries.push(entry);
    return entry.kind === "outcome" ? new Promise<void>((resolve) => recorded.push(resolve)) : undefined;
  };
  const revoked: string[] = [];
  const { app } = testGateway({
    nextRecorder: () => ({
      record: async (entry) => record(entry),
      enqueue: () => undefined,
    }),
    sessions: {
      revokeSession: async ({ sessionId }) => {
        revoked.push(sessionId);
        throw new Error("a bug");
      },
    },
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const socket = connect({ port, host: "127.0.0.1" });
  socket.on("error", () => undefined).pause();
  const end = (id: number) =>
    [
      `DELETE /auth/sessions/0199a000-0000-7000-8000-${String(id).padStart(12, "0")} HTTP/1.1`,
      `Host: ${HOST}`,
      "Authorization: Bearer user-token",
      "\r\n",
    ].join("\r\n");
  socket.write(Array.from({ length: 20 }, (_, id) => end(id)).join(""));
  await expect.poll(() => recorded.length).toBe(AT_ONCE);
  expect(revoked).toHaveLength(AT_ONCE);
  for (const done of recorded.splice(0)) done();
  await expect.poll(() => revoked.length).toBe(2 * AT_ONCE);
  socket.destroy();
});

test("what a client gave up while it waited is not carried out", async () => {
  const limiter = createMemoryLimiter({ replicas: 1, now: () => 0 });
  let arrived = 0;
  const take: CallLimiter["take"] = (buckets) => {
    arrived += 1;
    return limiter.take(buckets);
  };
  const { app, asked, entries, answerOne } = gatewayWithRefreshes({ callLimiter: { ...limiter, take } });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const working = Array.from({ length: AT_ONCE }, () => send(app, refreshWith("one")));
  await expect.poll(() => asked.length).toBe(AT_ONCE);
  const body = JSON.stringify({ refreshToken: "one" });
  const head = `POST /auth/refresh HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  const sockets = Array.from({ length: 5 }, () => connect({ port, host: "127.0.0.1" }));
  for (const socket of sockets) socket.on("error", () => undefined).write(`${head}\r\n\r\n${body}`);
  await expect.poll(() => arrived).toBe(AT_ONCE + sockets.length);
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => connectionsOf(app.server)).toBe(0);

  const last = send(app, refreshWith("one"));
  const answering = setInterval(answerOne, 0);
  for (const { statusCode } of await Promise.all([...working, last])) expect(statusCode).toBe(200);
  clearInterval(answering);
  expect(entries).toHaveLength(2 * (AT_ONCE + 1));
});

test("a client that leaves while its calls wait or are worked at keeps no turn", async () => {
  const { app, asked, answerOne } = gatewayWithRefreshes();
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const body = JSON.stringify({ refreshToken: "one" });
  const head = `POST /auth/refresh HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  // More rounds than turns would last if one of each round were kept.
  for (let round = 0; round <= AT_ONCE; round += 1) {
    const sockets = Array.from({ length: 2 * AT_ONCE }, () => connect({ port, host: "127.0.0.1" }));
    for (const socket of sockets) socket.on("error", () => undefined).write(`${head}\r\n\r\n${body}`);
    await expect.poll(() => asked.length).toBe(AT_ONCE);
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => connectionsOf(app.server)).toBe(0);
    while (asked.length > 0) answerOne();
  }
  const flood = Array.from({ length: 2 * AT_ONCE }, () => send(app, refreshWith("one")));
  await expect.poll(() => asked.length).toBe(AT_ONCE);
  const answering = setInterval(answerOne, 0);
  for (const { statusCode } of await Promise.all(flood)) expect(statusCode).toBe(200);
  clearInterval(answering);
});

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}
