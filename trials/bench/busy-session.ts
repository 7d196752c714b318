/**
 * What strangers notice of one session that refreshes over 200 connections, each of which waits after a 429, against a running `npm start`;
 * then 100 parallel refreshes of one session beside busy processes. It makes accounts: use a home that you can throw away.
 *
 *   npm start -- --detach && npm run trial -- busy-session
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { type AttackAccount, logIn, newAccount, PASSWORD } from "../attack/account.ts";
import { type Answer, assertLoopback, call, type Target } from "../attack/target.ts";
import { quantile } from "./support/workbench.ts";

const CONNECTIONS = 200;
const STRANGERS = 4;
const CALLS = 100;
const ROUNDS = 5;
const PARALLEL = 100;
const BUSY_PROCESSES = 8;
const AIM_RATIO = 3;
const RETRY_AFTER_MS = 1_000;

const target: Target = {
  url: new URL(process.env.GATEHOUSE_URL ?? "http://localhost:8080"),
  mailbox: new URL("http://localhost:1080"),
  adminPassword: undefined,
};
assertLoopback(target.url);

const refresh = (account: AttackAccount): Promise<Answer> =>
  call(target, "POST", "/auth/refresh", { body: { refreshToken: account.refreshToken }, from: account.from });

/** In a process of its own, so that its work is not in the strangers' times. @returns how often each status was answered. */
async function attack({ refreshToken, from }: AttackAccount): Promise<Record<string, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS, localAddress: from, family: 4 });
  const headers = { "content-type": "application/json" };
  const answers: Record<string, number> = {};
  let isOver = false;
  process.once("message", () => {
    isOver = true;
  });
  const refreshOnce = () =>
    new Promise<string>((resolve, reject) => {
      const sent = request(
        new URL("/auth/refresh", target.url),
        { method: "POST", agent, headers },
        (answer) => {
          answer.resume().once("end", () => resolve(`${answer.statusCode}`));
        },
      );
      sent.once("error", reject).end(JSON.stringify({ refreshToken }));
    });
  const connection = async () => {
    while (!isOver) {
      const status = await refreshOnce();
      answers[status] = (answers[status] ?? 0) + 1;
      // As clients do (RFC 9110 §10.2.3). Whoever does not is a flood of refusals, which costs everybody CPU.
      if (status === "429") await sleep(RETRY_AFTER_MS);
    }
  };
  const connections = Array.from({ length: CONNECTIONS }, connection);
  process.send?.("begun");
  await Promise.all(connections);
  agent.destroy();
  return answers;
}

if (process.send !== undefined) {
  const [text = ""] = process.argv.slice(2);
  process.send(await attack(JSON.parse(text)));
  process.disconnect();
  process.exit();
}

/** Milliseconds of each refresh and login of a stranger, one after the other. */
async function strangerTimes(account: AttackAccount): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < CALLS / STRANGERS; index += 1) {
    const startedMs = performance.now();
    const answer = await refresh(account);
    times.push(performance.now() - startedMs);
    if (answer.status !== 200) throw new Error(`a stranger's refresh: ${answer.status}`);
    account.refreshToken = answer.body.data.refreshToken;
  }
  const login = await logIn(target, account.email, PASSWORD, account.from);
  if (login.status !== 200) throw new Error(`a stranger's login: ${login.status}`);
  return times;
}

const strangers: AttackAccount[] = [];
for (let index = 0; index < STRANGERS; index += 1) strangers.push(await newAccount(target));
const p99 = async () => quantile((await Promise.all(strangers.map(strangerTimes))).flat(), 0.99);
await p99();

const alone: number[] = [];
const beside: number[] = [];
const answers = new Map<string, number>();
for (let round = 0; round < ROUNDS; round += 1) {
  alone.push(await p99());
  const attacker = await newAccount(target);
  const child = fork(import.meta.filename, [JSON.stringify(attacker)]);
  await once(child, "message");
  const ended = once(child, "message");
  beside.push(await p99());
  child.send("stop");
  const [counts] = await ended;
  for (const [status, count] of Object.entries(counts as Record<string, number>)) {
    answers.set(status, (answers.get(status) ?? 0) + count);
  }
}
const ratio = quantile(
  beside.map((value, index) => value / (alone[index] ?? Number.NaN)),
  0.5,
);
console.log(
  `strangers' refreshes, p99, median of ${ROUNDS} rounds: ${quantile(alone, 0.5).toFixed(1)} ms alone, ${quantile(beside, 0.5).toFixed(1)} ms beside ${CONNECTIONS} connections of one session`,
);
console.log(
  `the ${CONNECTIONS} connections were answered: ${[...answers].map(([status, count]) => `${count} × ${status}`).join(", ")}`,
);

const busy: ChildProcess[] = Array.from({ length: BUSY_PROCESSES }, () =>
  spawn(process.execPath, ["--eval", "for (;;);"], { stdio: "ignore" }),
);
const whole: string[] = [];
let longestMs = 0;
try {
  for (let round = 0; round < ROUNDS; round += 1) {
    const account = await newAccount(target);
    const startedMs = performance.now();
    const all = await Promise.all(Array.from({ length: PARALLEL }, () => refresh(account)));
    const pairs = new Set(all.map(({ body }) => body.data?.refreshToken));
    const right = all.filter(({ status }) => status === 200).length;
    longestMs = Math.max(longestMs, performance.now() - startedMs);
    whole.push(`${right} of ${PARALLEL} with ${pairs.size} pair${pairs.size === 1 ? "" : "s"}`);
  }
} finally {
  for (const child of busy) child.kill("SIGKILL");
}
console.log(
  `${PARALLEL} parallel refreshes beside ${BUSY_PROCESSES} busy processes: ${whole.join("; ")}; ${(longestMs / 1_000).toFixed(1)} s at most`,
);

const isKept = ratio <= AIM_RATIO && whole.every((text) => text === `${PARALLEL} of ${PARALLEL} with 1 pair`);
console.log(
  `${isKept ? "promise kept" : "PROMISE BROKEN"}: ratio ${ratio.toFixed(2)} (at most ${AIM_RATIO}), all answered with one pair`,
);
if (!isKept) process.exitCode = 1;
