import { once } from "node:events";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startReceiver } from "#event-service/delivery/replica.fixture.ts";
import { startTestSmtp } from "#identity-service/testing/test-smtp.ts";
import { findRedisProgram, startRedis } from "#tests/support/database/redis.ts";
import { quantile } from "../bench/support/workbench.ts";
import type { World } from "../chaos/clients.ts";
import type { Call, History } from "../chaos/history.ts";
import { readHistory } from "../chaos/history.ts";
import { judge } from "../chaos/rules.ts";
import { newWorld, startUpstream } from "../chaos/system-under-load.ts";
import { registerWebhook } from "../chaos/webhooks.ts";
import { say } from "../support.ts";
import { type Fleet, startFleet } from "./fleet.ts";
import { isFailed, runLoad, wasKilled } from "./load.ts";
import { ROUNDS, type Round } from "./rounds.ts";
import { checkOut, findCommit, ROOT } from "./version.ts";

const USAGE = `npm run trial -- rolling [--against <commit>] [--rounds <part of a name>,…] [--sessions <number>]

Runs two replicas of everything of this code and of another version, the newest
release by default, and exchanges them for each other under load. Ends with 1 if
a call fails, or an event of the audit log does not reach a webhook in its order.`;
const SHOWN = 10;
/** The default budget of a call: with it, a slower one would have failed. */
const DEFAULT_BUDGET_MS = 1_000;
const SETTLE_MS = 2_000;

const { values } = parseArgs({
  options: {
    against: { type: "string" },
    rounds: { type: "string", default: "" },
    sessions: { type: "string", default: "12" },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<boolean> {
  const old = checkOut(findCommit(values.against ?? process.env.ROLLING_AGAINST));
  const next = { name: "this code", root: ROOT };
  const program = findRedisProgram();
  say(`From ${old.name} to this code and back, ${program === undefined ? "without" : "with"} Redis`);
  const redis = program === undefined ? undefined : await startRedis(program);
  const smtp = await startTestSmtp();
  const upstream = await startUpstream();
  const receiver = await startReceiver();
  const fleet = await startFleet({
    old,
    next,
    upstreamPort: upstream.port,
    smtpPort: smtp.port,
    redisUrl: redis?.url,
  });
  const end = new AbortController();
  try {
    const webhook = await registerWebhook(fleet, { receiver });
    const world = newWorld(fleet, { urls: [fleet.url], seed: 1, signal: end.signal, smtp });
    const load = runLoad(world, fleet, Number(values.sessions)).then(endedEarly);
    load.catch(() => undefined); // the race reports it
    await Promise.race([carryOutAll(fleet, { old, next }, world), load, interrupted()]);
    end.abort();
    await load.catch(() => undefined);
    const { calls } = world;
    const history = await readHistory(fleet, { calls, received: upstream.received, webhooks: [webhook] });
    const problems = problemsOf(history, fleet);
    say(
      [
        `${calls.length} calls, ${history.entries.length} entries of the audit log, ` +
          `${webhook.received.length} attempts at the webhook`,
        ...problems,
      ].join("\n"),
    );
    return problems.length === 0;
  } finally {
    end.abort();
    await keepLogs(fleet);
    await fleet.remove();
    await smtp.close();
    upstream.close();
    receiver.close();
    await redis?.remove();
  }
}

async function carryOutAll(
  fleet: Fleet,
  versions: Parameters<Round["carryOut"]>[1],
  { calls }: World,
): Promise<void> {
  const wanted = values.rounds.split(",");
  // All clients have begun.
  await sleep(SETTLE_MS);
  for (const round of ROUNDS.filter(({ name }) => wanted.some((part) => name.includes(part)))) {
    const fromMs = performance.now();
    await round.carryOut(fleet, versions);
    await sleep(SETTLE_MS);
    report(round.name, fromMs, calls, fleet.kills);
  }
}

/** Says how a round went that ends now. */
function report(name: string, fromMs: number, calls: readonly Call[], kills: Fleet["kills"]): void {
  const seconds = (performance.now() - fromMs) / 1_000;
  const own = calls.filter(({ endMs }) => endMs >= fromMs);
  const failed = own.filter(isFailed);
  const bad = failed.filter((call) => !wasKilled(call, kills));
  const times = own.map(({ startMs, endMs }) => endMs - startMs);
  const at = (share: number) => (times.length === 0 ? 0 : Math.round(quantile(times, share)));
  const slow = times.filter((time) => time > DEFAULT_BUDGET_MS).length;
  say(
    `${name}: ${own.length} calls, ${Math.round(own.length / seconds)}/s, ${bad.length} failed, ` +
      `${failed.length - bad.length} under way at a kill, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ` +
      `longest ${at(1)} ms, ${slow} over ${DEFAULT_BUDGET_MS} ms`,
  );
}

function problemsOf(history: History, { kills, ended }: Fleet): string[] {
  const failed = history.calls.filter((call) => isFailed(call) && !wasKilled(call, kills));
  const described = failed.map(({ kind, startMs, endMs, answer, traceId }) => {
    const times = `${Math.round(startMs)} to ${Math.round(endMs)} ms`;
    return `failed: ${kind} ${times} ${answer?.status ?? "no answer"} ${answer?.code ?? ""} trace ${traceId}`;
  });
  const broken = Object.entries(judge(history)).flatMap(([rule, found]) =>
    found.slice(0, SHOWN).map((what) => `broken: ${rule}: ${what}`),
  );
  return [
    ...described.slice(0, SHOWN),
    ...(failed.length > SHOWN ? [`failed: ${failed.length} calls in all`] : []),
    ...broken,
    ...ended.map((process) => `ended by itself: ${process}`),
  ];
}

/** For whoever has to find out: `ROLLING_KEEP` names a folder. */
async function keepLogs({ home }: Fleet): Promise<void> {
  const folder = process.env.ROLLING_KEEP;
  if (folder !== undefined) await cp(join(home, "logs"), folder, { recursive: true });
}

/** So that nothing is left behind. */
async function interrupted(): Promise<never> {
  await Promise.race(["SIGINT", "SIGTERM"].map((signal) => once(process, signal)));
  throw new Error("interrupted");
}

function endedEarly(): never {
  throw new Error("the load has ended by itself");
}

if (values.help) say(USAGE);
// Connections of the clients are still kept alive.
else process.exit((await main()) ? 0 : 1);
