/**
 * Attacks that want to use up what all share, on a whole system as `npm start` runs it, and what users with a token feel
 * of them. Each attack is measured between two quiet times of the same run: calls a second that verified users get
 * through, and the latency of calls at a fixed rate. The aim: half of the throughput, and at most 3 times the quiet p99,
 * and no user is refused. The gateway, an upstream and the users have two cores, and all else two others, as pods have
 * (Linux with four cores or more): otherwise the figures show how the scheduler shares the cores.
 *
 *   npm run trial -- exhaustion
 *   ROUNDS=1 npm run trial -- exhaustion "garbage tokens"
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { apiClient } from "#tests/support/people/api-client.ts";
import { startSystem } from "#tests/support/system/system.ts";
import type { AttackPlan } from "./support/attack.ts";
import type { SteadyFigures, SteadyPlan } from "./support/steady-load.ts";
import { quantile } from "./support/workbench.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const USERS = 16;
const CLOSED_MS = 5_000;
const FIXED_MS = 5_000;
const FIXED_RATE = 200;
/** Until an attack has begun in full. */
const LEAD_MS = 2_000;
/** Until the last calls of an attack are over. */
const REST_MS = 3_000;
const PATH = "/payments";
const MIN_THROUGHPUT = 0.5;
const MAX_P99 = 3;

const system = await startSystem({
  environment: { CALL_BUDGET_MS: "" },
  files: (ports) => ({
    "services/gateway.env": "TRUSTED_PROXIES=127.0.0.0/8,::1\n",
    // As the manifests set it: other processes have cores of their own there.
    "services/identity-service.env": "HASH_CONCURRENCY=2\n",
    "routes.yaml": JSON.stringify({
      routes: [
        {
          prefix: PATH,
          upstream: `http://127.0.0.1:${ports.PAYMENTS_PORT}`,
          audience: "payments",
          rateLimit: Object.fromEntries(
            ["perUser", "perAddress", "total"].map((name) => [name, { calls: 1_000_000, perSeconds: 60 }]),
          ),
          methods: { GET: { permissions: ["payments:read"] } },
        },
      ],
    }),
  }),
});
const api = apiClient(system.url);

const isPinned = process.platform === "linux" && availableParallelism() >= 4;
const FRONT = "0,1";
const BACK = "2,3";

/** The processes of the system, PostgreSQL's among them. */
function pin(): void {
  const tree = execFileSync("ps", ["-e", "-o", "pid=,ppid=,args="], { encoding: "utf8" })
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(\d+)\s(.*)$/.exec(line) ?? []);
  const pending = [String(system.launcher.pid)];
  for (let pid = pending.pop(); pid !== undefined; pid = pending.pop()) {
    pending.push(...tree.filter(([, , parent]) => parent === pid).map(([, child = ""]) => child));
    const [, , , command = ""] = tree.find(([, id]) => id === pid) ?? [];
    const isFront = /(?:gateway|payments-service)\/main\.ts/.test(command);
    execFileSync("taskset", ["-a", "-p", "-c", isFront ? FRONT : BACK, pid], { stdio: "ignore" });
  }
}
if (isPinned) pin();

async function person(index: number) {
  const headers = { "x-forwarded-for": `198.51.100.${index}` };
  const credentials = { email: `user-${index}@example.com`, password: "correct horse battery" };
  await api.post("/auth/register", { ...credentials, firstName: "Ada", lastName: "Lovelace" }, { headers });
  const answer = await api.post("/auth/login", credentials, { headers });
  if (answer.status !== 200) throw new Error(`login: ${answer.status} ${JSON.stringify(answer.body)}`);
  return {
    ...credentials,
    address: headers["x-forwarded-for"],
    token: answer.body.data.accessToken as string,
  };
}

const people: Awaited<ReturnType<typeof person>>[] = [];
for (let index = 1; index <= USERS; index += 1) people.push(await person(index));
/** Whose sessions the attacker begins: a user's oldest sessions end when there are too many. */
const others: typeof people = [];
for (let index = USERS + 1; index <= 2 * USERS; index += 1) others.push(await person(index));

const run = (file: string, plan: unknown, cores: string) => {
  const command = [
    ...(isPinned ? ["taskset", "-c", cores] : []),
    process.execPath,
    file,
    JSON.stringify(plan),
  ];
  const child = spawn(command[0] ?? "", command.slice(1), {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  const ended = once(child, "close").then(([code]) => {
    if (code !== 0) throw new Error(`${file} ended with ${code}`);
    return JSON.parse(output);
  });
  return { child, ended };
};

async function steady(): Promise<SteadyFigures> {
  const plan: SteadyPlan = {
    origin: system.url,
    path: PATH,
    callers: people.map(({ token, address }) => ({ token, address })),
    connections: 8,
    closedMs: CLOSED_MS,
    ratePerS: FIXED_RATE,
    fixedMs: FIXED_MS,
  };
  return await run("trials/bench/support/steady-load.ts", plan, FRONT).ended;
}

/** Logins a second that the system completes. */
async function loginCapacity(): Promise<number> {
  const startedMs = performance.now();
  let count = 0;
  await Promise.all(
    others.slice(0, 8).map(async ({ email, password, address }) => {
      while (performance.now() - startedMs < 5_000) {
        const headers = { "x-forwarded-for": address };
        if ((await api.post("/auth/login", { email, password }, { headers })).status === 200) count += 1;
      }
    }),
  );
  return (count * 1_000) / (performance.now() - startedMs);
}

const capacity = await loginCapacity();
console.log(
  `${isPinned ? "two cores for the front, two for the rest" : "all share the cores"}; logins: ${capacity.toFixed(0)} a second`,
);
const origin = system.url;
const accounts = others.map(({ email, password }) => ({ email, password }));
const ATTACKS: Record<string, AttackPlan> = {
  "wrong logins out of one /48, 500/s": { kind: "wrong logins", origin, ratePerS: 500, from: "one /48" },
  "wrong logins from everywhere, 500/s": { kind: "wrong logins", origin, ratePerS: 500, from: "everywhere" },
  "right logins at 4 times the capacity": {
    ...{ kind: "right logins", origin, ratePerS: 4 * capacity, from: "everywhere" },
    people: accounts,
  },
  "garbage tokens at first sight, one /48, 1,000/s": {
    ...{ kind: "garbage tokens", origin, ratePerS: 1_000, from: "one /48" },
    ...{ token: people[0]?.token ?? "", path: PATH },
  },
  "garbage tokens at first sight, everywhere, 1,000/s": {
    ...{ kind: "garbage tokens", origin, ratePerS: 1_000, from: "everywhere" },
    ...{ token: people[0]?.token ?? "", path: PATH },
  },
  "2,000 slow headers and bodies": { kind: "slow requests", origin, ratePerS: 1_000, from: "everywhere" },
};

const wanted = process.argv[2] ?? "";
const attacks = Object.entries(ATTACKS).filter(([name]) => name.includes(wanted));
if (attacks.length === 0)
  throw new Error(`no attack is called ${wanted}: ${Object.keys(ATTACKS).join("; ")}`);
await steady(); // warms up
let isMissed = false;
for (const [name, plan] of attacks) {
  const throughput: number[] = [];
  const slowdown: number[] = [];
  const refused: string[] = [];
  let answers = {};
  let quiet = await steady();
  for (let round = 0; round < ROUNDS; round += 1) {
    const attack = run("trials/bench/support/attack.ts", plan, BACK);
    await sleep(LEAD_MS);
    const under = await steady();
    attack.child.kill("SIGTERM");
    answers = await attack.ended;
    await sleep(REST_MS);
    const after = await steady();
    const mean = (pick: (each: SteadyFigures) => number) => (pick(quiet) + pick(after)) / 2;
    throughput.push(under.throughputPerS / mean((each) => each.throughputPerS));
    slowdown.push(under.p99Ms / mean((each) => each.p99Ms));
    refused.push(...Object.keys(under.answers).filter((status) => status !== "200"));
    quiet = after;
    console.log(
      `  ${name}: ${under.throughputPerS.toFixed(0)}/s, p99 ${under.p99Ms.toFixed(1)} ms; ` +
        `quiet afterwards ${after.throughputPerS.toFixed(0)}/s, p99 ${after.p99Ms.toFixed(1)} ms; users ${JSON.stringify(under.answers)}`,
    );
  }
  const [kept, times] = [quantile(throughput, 0.5), quantile(slowdown, 0.5)];
  const isHeld = kept >= MIN_THROUGHPUT && times <= MAX_P99 && refused.length === 0;
  isMissed ||= !isHeld;
  console.log(
    `${isHeld ? "held  " : "MISSED"} ${name}: throughput ${kept.toFixed(2)} of quiet, p99 ${times.toFixed(1)} times, ` +
      `attacker's answers ${JSON.stringify(answers)}`,
  );
}
await system.remove();
process.exitCode = isMissed ? 1 : 0;
