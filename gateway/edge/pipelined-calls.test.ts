import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Backends } from "../backends/backends.ts";
import { defaultLimitClasses } from "../limits/limit-class.ts";
import { StrangerPlaces } from "../limits/share-counts.ts";
import { statuses } from "../testing/raw-socket.ts";
import { completedLogin, HOST, testGateway } from "../testing/test-gateway.ts";

const BODY = JSON.stringify({ email: "a@example.com", password: "x" });
const LOGIN_LIMIT = defaultLimitClasses().login.address.calls;

let gateway: ReturnType<typeof testGateway>;
let places: StrangerPlaces;
let port: number;
/** Answers pending logins. */
const waiting: (() => void)[] = [];
let mostWaiting = 0;
const sockets: Socket[] = [];

beforeEach(async () => {
  waiting.length = 0;
  mostWaiting = 0;
  const login: Backends["identity"]["login"] = () =>
    new Promise((resolve) => {
      waiting.push(() => resolve(completedLogin()));
      mostWaiting = Math.max(mostWaiting, waiting.length);
    });
  places = new StrangerPlaces(10 * LOGIN_LIMIT);
  gateway = testGateway({
    identity: { login },
    strangerPlaces: places,
    isTrustedProxy: () => true,
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  answerAll();
  await gateway.app.close();
});

function answerAll(): void {
  for (const answer of waiting.splice(0)) answer();
}

const loginFrom = (network: string, body = BODY) =>
  [
    "POST /auth/login HTTP/1.1",
    `Host: ${HOST}`,
    `X-Forwarded-For: ${network}`,
    "Content-Type: application/json",
    `Content-Length: ${BODY.length}`,
    "",
    body,
  ].join("\r\n");

/** Sends text over a new connection. */
function send(text: string) {
  const socket = connect({ port, host: "127.0.0.1" });
  sockets.push(socket);
  const connection = { socket, text: "" };
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => {
    connection.text += chunk.toString("latin1");
  });
  socket.write(text);
  return connection;
}

test("two thousand pipelined logins of one network: half of its limit is under way, and others log in", async () => {
  const flood = Array.from({ length: 20 }, () => send(loginFrom("192.0.2.1").repeat(100)));
  await expect.poll(() => waiting.length).toBe(LOGIN_LIMIT / 2);
  const other = send(loginFrom("192.0.2.2"));
  await expect.poll(() => waiting.length).toBe(LOGIN_LIMIT / 2 + 1);
  waiting.pop()?.();
  await expect.poll(() => statuses(other.text)).toEqual([200]);

  const isAnswered = () => {
    answerAll();
    return flood.reduce((sum, { text }) => sum + statuses(text).length, 0);
  };
  await expect.poll(isAnswered, { timeout: 60_000 }).toBe(2_000);
  expect(mostWaiting).toBeLessThanOrEqual(LOGIN_LIMIT / 2 + 1);
  const answers = new Map<number, number>();
  for (const status of flood.flatMap(({ text }) => statuses(text)))
    answers.set(status, (answers.get(status) ?? 0) + 1);
  expect([...answers.keys()].sort()).toEqual([200, 429]);
}, 120_000);

test("a place comes back when its client leaves in the middle of its body, or before its answer", async () => {
  for (let turn = 0; turn < LOGIN_LIMIT / 2 + 10; turn += 1) {
    const { socket } = send(loginFrom("192.0.2.1", turn % 2 === 0 ? BODY : BODY.slice(1)));
    await once(socket, "connect");
    if (turn % 2 === 0) await expect.poll(() => waiting.length, { interval: 1 }).toBe(1);
    socket.destroy();
    answerAll();
  }
  await expect.poll(() => places.taken).toBe(0);
  const last = send(loginFrom("192.0.2.1"));
  await expect.poll(() => waiting.length).toBe(1);
  answerAll();
  await expect.poll(() => statuses(last.text)).toEqual([200]);
});

test("strangers whose bodies are slow hold no place of those who log in", async () => {
  for (let index = 1; index <= 10; index += 1) send(loginFrom(`192.0.2.${index}`, BODY.slice(1)));
  send(loginFrom("192.0.2.100"));
  await expect.poll(() => waiting.length).toBe(1);
  expect(places.taken).toBe(1);
});
