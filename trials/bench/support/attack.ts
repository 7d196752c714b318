/**
 * One attack on the gateway, in a process of its own, until it is stopped by SIGTERM. Prints one line of JSON at the
 * end: the number of answers by status. Bounded in rate and in connections.
 *
 *   node trials/bench/support/attack.ts <plan as JSON>
 */
import { randomBytes, randomInt, randomUUID } from "node:crypto";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";

export interface AttackPlan {
  kind: "wrong logins" | "right logins" | "garbage tokens" | "slow requests";
  origin: string;
  ratePerS: number;
  /** Where they seem to come from: one IPv6 /48, or IPv4 networks all over. */
  from: "one /48" | "everywhere";
  /** Of a token whose signature is replaced: its key is known. */
  token?: string;
  people?: { email: string; password: string }[];
  path?: string;
}

const MAX_OPEN = 2_000;
const BYTE_EVERY_MS = 500;

const plan = JSON.parse(process.argv[2] ?? "") as AttackPlan;
const answers: Record<string, number> = {};
let isOver = false;
process.on("SIGTERM", () => {
  isOver = true;
});
const count = (outcome: string) => {
  answers[outcome] = (answers[outcome] ?? 0) + 1;
};

const address = () =>
  plan.from === "one /48"
    ? `2001:db8:1:${randomInt(65_536).toString(16)}::${randomInt(1, 65_536).toString(16)}`
    : `${randomInt(11, 126)}.${randomInt(256)}.${randomInt(256)}.${randomInt(1, 255)}`;

function request(index: number): { method: "GET" | "POST"; path: string; body?: string; token?: string } {
  if (plan.kind === "garbage tokens") {
    const [header, payload] = (plan.token ?? "").split(".");
    return {
      method: "GET",
      path: plan.path ?? "/",
      token: `${header}.${payload}.${randomBytes(64).toString("base64url")}`,
    };
  }
  const person = plan.people?.[index % plan.people.length];
  const credentials =
    plan.kind === "right logins" && person !== undefined
      ? person
      : { email: `nobody-${randomUUID()}@example.com`, password: "a wrong password" };
  return { method: "POST", path: "/auth/login", body: JSON.stringify(credentials) };
}

/** Without waiting for answers, as attackers do, but with a maximum of open calls. */
async function flood(): Promise<void> {
  const pool = new Pool(plan.origin, { connections: 256, pipelining: 1 });
  let open = 0;
  const startedMs = performance.now();
  for (let index = 0; !isOver; index += 1) {
    const waitMs = startedMs + (index * 1_000) / plan.ratePerS - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    if (open >= MAX_OPEN) {
      count("not sent");
      continue;
    }
    const { method, path, body, token } = request(index);
    const headers = {
      "x-forwarded-for": address(),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    open += 1;
    void pool
      .request({ method, path, headers, ...(body !== undefined && { body }) })
      .then(async ({ statusCode, body: answer }) => {
        await answer.dump();
        count(String(statusCode));
      })
      .catch((error: { code?: string }) => count(error.code ?? "error"))
      .finally(() => {
        open -= 1;
      });
  }
  await pool.destroy();
}

/** Half of them never end their headers, half never end their bodies. A closed one is opened again. */
async function slowRequests(): Promise<void> {
  const { hostname, port } = new URL(plan.origin);
  const host = hostname === "localhost" ? "127.0.0.1" : hostname;
  const sockets = new Set<Socket>();
  const open = (index: number) => {
    const from = `x-forwarded-for: ${address()}\r\n`;
    const start = `POST /auth/login HTTP/1.1\r\nhost: ${hostname}:${port}\r\n${from}`;
    const body = "content-type: application/json\r\ncontent-length: 10000\r\n\r\n{";
    const socket = connect({ host, port: Number(port) }, () =>
      socket.write(index % 2 === 0 ? start : start + body),
    );
    sockets.add(socket);
    const timer = setInterval(() => socket.write(index % 2 === 0 ? "x" : " "), BYTE_EVERY_MS);
    socket.on("data", (data) => count(data.subarray(9, 12).toString()));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearInterval(timer);
      sockets.delete(socket);
      count("closed");
    });
  };
  for (let index = 0; !isOver; index += 1) {
    if (sockets.size < MAX_OPEN) open(index);
    await sleep(1_000 / plan.ratePerS);
  }
  count(`open at the end: ${sockets.size}, times`);
  for (const socket of sockets) socket.destroy();
}

await (plan.kind === "slow requests" ? slowRequests() : flood());
console.log(JSON.stringify(answers));
process.exit(0);
