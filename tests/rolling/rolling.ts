import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startTestSmtp } from "../../identity-service/testing/test-smtp.ts";
import type { World } from "../flows/chaos/clients.ts";
import type { Call } from "../flows/chaos/history.ts";
import { readHistory } from "../flows/chaos/read-history.ts";
import { judge } from "../flows/chaos/rules.ts";
import { keepResetTokens, logInAtProvider, proveAddress } from "../flows/chaos/surroundings.ts";
import { startUpstream } from "../flows/chaos/upstream.ts";
import { seededRandom } from "../support/crash-clients.ts";
import { findRedisProgram, startRedis } from "../support/redis.ts";
import { startFleet } from "./fleet.ts";
import { isFailed, runLoad, wasKilled } from "./load.ts";
import { ROUNDS, type Round } from "./rounds.ts";
import { checkOut, findCommit, ROOT } from "./version.ts";

const USAGE = `npm run test:rolling -- [--against <commit>] [--rounds <part of a name>,…] [--sessions <number>]

Runs two replicas of everything of this code and of another version, the newest
release by default, and exchanges them for each other under load. Ends with 1 if
a call fails.`;
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

interface Span {
  round: Round;
  fromMs: number;
  toMs: number;
}

async function main(): Promise<boolean> {
  const old = checkOut(findCommit(values.against ?? process.env.ROLLING_AGAINST));
  const next = { name: "this code", root: ROOT };
  say(`from ${old.name} to this code and back`);
  const program = findRedisProgram();
  if (program === undefined) say("without Redis: there is no redis-server or valkey-server");
  const redis = program === undefined ? undefined : await startRedis(program);
  const smtp = await startTestSmtp();
  const upstream = await startUpstream();
  const end = new AbortController();
  const fleet = await startFleet({
    old,
    next,
    upstreamPort: upstream.port,
    smtpPort: smtp.port,
    redisUrl: redis?.url,
  });
  try {
    const world: World = {
      urls: [fleet.url],
      random: seededRandom(1),
      calls: [],
      signal: end.signal,
      resetToken: keepResetTokens(smtp),
      proveAddress: (userId) => proveAddress(fleet, userId),
      logInAtProvider,
      ghosts: [],
    };
    const load = runLoad(world, fleet, Number(values.sessions));
    const spans = await Promise.race([carryOut(fleet, { old, next }, world), load.then(endedEarly)]);
    end.abort();
    await load;
    const bad = spans.map((span) => report(span, world.calls, fleet.kills).length);
    const history = await readHistory(fleet, { calls: world.calls, received: upstream.received });
    const broken = Object.entries(judge(history)).filter(([, found]) => found.length > 0);
    for (const [rule, found] of broken)
      say(`broken: ${rule} (${found.length})\n  ${found.slice(0, SHOWN).join("\n  ")}`);
    for (const process of fleet.ended) say(`ended by itself: ${process}`);
    const entries = history.entries.length;
    say(`${world.calls.length} calls, ${entries} entries of the audit log, ${broken.length} rules broken`);
    if (process.env.ROLLING_KEEP !== undefined) {
      await cp(join(fleet.home, "logs"), process.env.ROLLING_KEEP, { recursive: true });
      await writeFile(join(process.env.ROLLING_KEEP, "origin"), String(performance.timeOrigin));
    }
    return bad.every((count) => count === 0) && broken.length === 0 && fleet.ended.length === 0;
  } finally {
    end.abort();
    await fleet.remove();
    await smtp.close();
    upstream.close();
    await redis?.remove();
  }
}

async function carryOut(
  fleet: Awaited<ReturnType<typeof startFleet>>,
  versions: Parameters<Round["carryOut"]>[1],
  { calls }: World,
): Promise<Span[]> {
  const wanted = values.rounds.split(",");
  const spans: Span[] = [];
  // All clients have begun.
  await sleep(SETTLE_MS);
  for (const round of ROUNDS.filter(({ name }) => wanted.some((part) => name.includes(part)))) {
    const fromMs = performance.now();
    await round.carryOut(fleet, versions);
    await sleep(SETTLE_MS);
    const span = { round, fromMs, toMs: performance.now() };
    spans.push(span);
    const failed = report(span, calls, fleet.kills);
    for (const call of failed.slice(0, SHOWN))
      say(
        `    ${call.kind} ${Math.round(call.startMs)} to ${Math.round(call.endMs)} ms: ` +
          `${call.answer?.status ?? "no answer"} ${call.answer?.code ?? ""} trace ${call.traceId}`,
      );
  }
  return spans;
}

/** Says how a round went. @returns the calls that failed and may not. */
function report(
  { round, fromMs, toMs }: Span,
  calls: readonly Call[],
  kills: Parameters<typeof wasKilled>[1],
) {
  const own = calls.filter(({ endMs }) => fromMs <= endMs && endMs < toMs);
  const failed = own.filter(isFailed);
  const bad = failed.filter((call) => !wasKilled(call, kills));
  const times = own.map(({ startMs, endMs }) => endMs - startMs).sort((a, b) => a - b);
  const at = (share: number) => Math.round(times[Math.floor(times.length * share)] ?? 0);
  const slow = times.filter((time) => time > DEFAULT_BUDGET_MS).length;
  say(
    `${round.name}: ${own.length} calls, ${Math.round((own.length * 1_000) / (toMs - fromMs))}/s, ${bad.length} failed, ` +
      `${failed.length - bad.length} under way at a kill, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ` +
      `longest ${Math.round(times.at(-1) ?? 0)} ms, ${slow} over ${DEFAULT_BUDGET_MS} ms`,
  );
  return bad;
}

function endedEarly(): never {
  throw new Error("the load has ended");
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

if (values.help) say(USAGE);
else process.exitCode = (await main()) ? 0 : 1;
