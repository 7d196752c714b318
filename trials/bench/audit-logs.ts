/**
 * Audit entries through 1, 2 and 4 logs, each a durable PostgreSQL of its own, behind one audit-service; which of two replicas
 * numbers which log; and calls while one log is away.
 *
 *   npm run trial -- audit-logs [entries of a round]
 */
import { setTimeout as sleep } from "node:timers/promises";
import { AuditSpool } from "#audit-client/spool/audit-spool.ts";
import { newProducerId } from "#audit-client/stream/producer-id.ts";
import { CALL_BUDGET_MS } from "#kit/rpc/call-context.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import type { Replica } from "#tests/support/system/replicas.ts";
import { until } from "../support.ts";
import type { Sample, Subject } from "./figures/figure.ts";
import { callOf, logger, numbersOf, openAuditLogs } from "./support/audit-logs.ts";
import { cpuUs } from "./support/processes.ts";
import { rounded, rowsOf, type Taken, tableOf } from "./support/report.ts";
import { takeRounds } from "./support/rounds.ts";
import { quantile, ranUs, runMany, serverCpuUs, serverPids, startCpu } from "./support/workbench.ts";

const COUNTS = [1, 2, 4];
const ALL = Math.max(...COUNTS);
const ROUNDS = 3;
const ENTRIES = Number(process.argv[2] ?? 50_000);
const WARM_UP_ENTRIES = 20_000;
/** Each stands for a gateway and has a connection for each log. */
const PRODUCERS = 4;
/** Calls for each log: what waits together is stored together. */
const IN_FLIGHT = 500;
const PATIENCE_MS = 30_000;
const GOAL_PER_S = 40_000;
const CALLS_PER_S = 200;
const PHASES_S = { before: 10, away: 20, after: 10 };
const AWAY = 2;
const SPOOL_BYTES = 256 * 1024 * 1024;

const logs = await openAuditLogs(ALL);
const { owners } = logs;
const median = (samples: readonly Sample[], name: string) =>
  quantile(
    samples.map(({ values }) => values[name] ?? Number.NaN),
    0.5,
  );
const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

try {
  const subjects = COUNTS.map((count): Subject => {
    const name = count === 1 ? "1 log" : `${count} logs`;
    return { name, isOurs: count > 1, ...(count > 1 && { version: name }), sample: () => sample(count) };
  });
  showCosts(await takeRounds(subjects, { rounds: ROUNDS, isCold: true }, (text) => console.error(text)));
  await twoReplicas();
  await oneLogAway();
} finally {
  await logs.close();
}

/** With empty logs and a new process, which is warm before it is measured. */
async function sample(count: number): Promise<Sample> {
  await logs.empty();
  const service = await logs.startService(count);
  try {
    await fill(service, count, WARM_UP_ENTRIES);
    const before = await usage([service], count);
    const ofProducers = startCpu();
    const { storedS, coveredS } = await fill(service, count, ENTRIES);
    const producers = ofProducers() / ENTRIES;
    const after = await usage([service], count);
    const ofEach = (part: Exclude<keyof typeof before, "services">) =>
      after[part].map((us, log) => (us - (before[part][log] ?? 0)) / ENTRIES);
    const values = {
      "stored/s": ENTRIES / storedS,
      "under a checkpoint/s": ENTRIES / coveredS,
      "audit-service": ((after.services[0] ?? 0) - (before.services[0] ?? 0)) / ENTRIES,
      "all PostgreSQL": sumOf(ofEach("servers")),
      "busiest PostgreSQL": Math.max(...ofEach("servers")),
      "its inserting connections": Math.max(...ofEach("inserting")),
      "its numbering connection": Math.max(...ofEach("numbering")),
      producers,
    };
    return { values };
  } finally {
    await service.stop();
  }
}

/** Records calls until every entry has a number under a signed checkpoint. @returns seconds until they were stored, and until then. */
async function fill(service: Replica, count: number, entries: number) {
  const recorders = Array.from({ length: PRODUCERS }, () => logs.recorderTo(service, count));
  const startedMs = performance.now();
  const storedS = await runMany(entries / 2, count * IN_FLIGHT, async (index) => {
    const recorder = recorders[index % PRODUCERS]?.next();
    const { intent, outcome } = callOf(index);
    await recorder?.record(intent, Date.now() + PATIENCE_MS);
    await recorder?.record(outcome, Date.now() + PATIENCE_MS);
  });
  await Promise.all(
    owners.slice(0, count).map(async (owner) => {
      const [last] = await owner`select max(position) as position from log_entries`;
      await until("a checkpoint", async () => {
        const [row] = await owner`select exists (select from checkpoints
          where size >= (select sequence from leaves where position = ${last?.position})) as "isCovered"`;
        return row?.isCovered === true;
      });
    }),
  );
  const coveredS = (performance.now() - startedMs) / 1_000;
  await Promise.all(recorders.map((recorder) => recorder.close(PATIENCE_MS)));
  return { storedS, coveredS };
}

/** CPU until now, in µs. */
async function usage(services: readonly Replica[], count: number) {
  const connections = (name: string) => async (log: number) => {
    const pids = await (owners[log] as (typeof owners)[number])<{ pid: number }[]>`
      select pid from pg_stat_activity where application_name like ${name}`;
    return sumOf(await Promise.all(pids.map(({ pid }) => ranUs(pid))));
  };
  const ofEach = (read: (log: number) => Promise<number>) => Promise.all(numbersOf(count).map(read));
  return {
    services: services.map(({ child }) => cpuUs(child.pid ?? 0)),
    servers: await ofEach((log) => serverCpuUs(logs.dataOf(log))),
    inserting: await ofEach(connections("audit-service")),
    numbering: await ofEach(connections("audit-service sequencer %")),
  };
}

function showCosts(taken: Taken): void {
  const names = Object.keys([...taken.values()][0]?.[0]?.values ?? {});
  const quantities = names.map((name) => ({ name, unit: name.endsWith("/s") ? "" : "µs", aims: [] }));
  console.log(`Measured: ${ENTRIES} entries a round, CPU for each, medians of ${ROUNDS} rounds [least–most]`);
  console.log(tableOf(rowsOf({ name: "audit-logs", quantities }, taken)));
  console.log(`Computed, not measured: cores for ${GOAL_PER_S} entries a second`);
  for (const [{ name }, samples] of taken) {
    const cores = (part: string) => (median(samples, part) * GOAL_PER_S) / 1e6;
    const shown = names
      .filter((part) => !part.endsWith("/s"))
      .map((part) => `${part} ${rounded(cores(part))}`);
    const replicas = Math.ceil(cores("audit-service"));
    console.log(`- ${name}: ${shown.join(", ")}; ${replicas} replicas of audit-service or more`);
  }
}

/** Numbers of the logs that each numbers. */
async function numberedBy(replicas: readonly Replica[]): Promise<number[][]> {
  const texts = await Promise.all(replicas.map((replica) => replica.metrics()));
  const held = /^gatehouse_audit_sequencer\{[^}]*log="(\d+)"[^}]*\} 1$/gm;
  return texts.map((text) => [...text.matchAll(held)].map(([, log]) => Number(log)));
}

/** Until each replica numbers as many logs as the others. */
function untilNumbered(replicas: readonly Replica[]): Promise<boolean> {
  const each = ALL / replicas.length;
  return until(`each numbers ${each} logs`, async () =>
    (await numberedBy(replicas)).every((held) => held.length === each),
  );
}

async function twoReplicas(): Promise<void> {
  await logs.empty();
  const replicas = await Promise.all([logs.startService(), logs.startService()]);
  const show = async (when: string) => {
    const each = await numberedBy(replicas);
    console.log(`Two replicas, ${when}: they number ${each.map((held) => `[${held}]`).join(" and ")}`);
  };
  try {
    await untilNumbered(replicas);
    await show("started together");
    const [stopped] = replicas.splice(0, 1);
    await stopped?.stop();
    const stoppedMs = performance.now();
    await untilNumbered(replicas);
    await show(`the first stopped, after ${rounded(performance.now() - stoppedMs)} ms`);
    replicas.unshift(await logs.startService());
    await untilNumbered(replicas);
    await show("the first started again");
    await fill(replicas[0] as Replica, ALL, WARM_UP_ENTRIES);
    const before = await usage(replicas, ALL);
    await fill(replicas[0] as Replica, ALL, WARM_UP_ENTRIES);
    const after = await usage(replicas, ALL);
    const each = after.services.map((us, index) => (us - (before.services[index] ?? 0)) / WARM_UP_ENTRIES);
    console.log(`An entry through the first takes ${each.map(rounded).join(" and ")} µs of their CPU`);
  } finally {
    await Promise.all(replicas.map((replica) => replica.stop()));
  }
}

/** It answers nothing, and its connections stay open: all processes of its PostgreSQL are stopped. */
async function oneLogAway(): Promise<void> {
  await logs.empty();
  const service = await logs.startService();
  const spool = await AuditSpool.open({
    ...{ directory: logs.spoolDirectory, maxBytes: SPOOL_BYTES, logger },
    producerIds: numbersOf(ALL).map(newProducerId),
    metrics: createMetrics("gateway"),
  });
  const recorder = logs.recorderTo(service, ALL, spool);
  const signal = async (name: NodeJS.Signals) => {
    for (const pid of await serverPids(logs.dataOf(AWAY))) process.kill(pid, name);
  };
  const calls: string[] = [];
  let refused = 0;
  const call = async (times: number[]) => {
    const { intent, outcome } = callOf(calls.length);
    calls.push(intent.callId);
    const own = recorder.next();
    for (const each of [intent, outcome]) {
      const startedMs = performance.now();
      await own.record(each, Date.now() + CALL_BUDGET_MS);
      times.push(performance.now() - startedMs);
    }
  };
  const callFor = async (seconds: number) => {
    const times: number[] = [];
    const open: Promise<void>[] = [];
    const startedMs = performance.now();
    while (open.length < seconds * CALLS_PER_S) {
      const done = call(times).catch(() => {
        refused += 1;
      });
      open.push(done);
      await sleep(Math.max(0, startedMs + (open.length * 1_000) / CALLS_PER_S - performance.now()));
    }
    await Promise.all(open);
    return times;
  };
  try {
    await untilNumbered([service]);
    await callFor(PHASES_S.before);
    for (const [phase, seconds] of Object.entries(PHASES_S)) {
      if (phase === "away") await signal("SIGSTOP");
      const times = await callFor(seconds);
      if (phase === "away") await signal("SIGCONT");
      const [p50, p99, most] = [0.5, 0.99, 1].map((share) => rounded(quantile(times, share)));
      console.log(
        `One of ${ALL} logs, ${phase}: an entry is durable in p50 ${p50}, p99 ${p99}, at most ${most} ms`,
      );
    }
  } finally {
    await signal("SIGCONT");
    await recorder.close(PATIENCE_MS);
    await service.stop();
  }
  await showStored(calls, refused);
}

/** No call was refused, and the intent and outcome of each are in one log, once. */
async function showStored(calls: readonly string[], refused: number): Promise<void> {
  const byLog = await Promise.all(
    owners.map(
      (owner) => owner<{ call: string; kinds: string }[]>`
        select call_id as call, string_agg(kind, ' ' order by kind) as kinds from log_entries where kind <> 'event' group by 1`,
    ),
  );
  const stored = byLog.flat();
  const isKept =
    refused === 0 &&
    stored.length === calls.length &&
    new Set(stored.map(({ call }) => call)).symmetricDifference(new Set(calls)).size === 0 &&
    stored.every(({ kinds }) => kinds === "intent outcome");
  const found = `${stored.length} of ${calls.length} calls, by log ${byLog.map(({ length }) => length)}`;
  console.log(
    `${isKept ? "promise kept" : "PROMISE BROKEN"}: ${refused} were refused, each entry is in one log, once: ${found}`,
  );
  if (!isKept) process.exitCode = 1;
}
