import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../support.ts";
import type { Bench } from "../support/bench.ts";
import { type Gatehouse, routeTo } from "../support/gatehouse.ts";
import { type RunningGateway, startGatewayPeers } from "../support/gateway-peers.ts";
import { cpuUs } from "../support/processes.ts";
import { MISSING_RATE, sendAtRate, sendLoad, warmUp, writeRequests } from "../support/send-load.ts";
import { issueTokens } from "../support/tokens.ts";
import type { Figure, Sample, Subject } from "./figure.ts";

/** CPU of a forwarded GET with everything that is checked and logged, of all our processes. */

const PATH = "/payments/7";
const TOKENS = 200;
const MANY_TOKENS = 50_000;
const MANY_ROUTES = 200;
const WARM_UP_CALLS = 40_000;
const SAMPLE_S = 2;
/** Long enough for each of many tokens. */
const LONG_SAMPLE_S = 4;
const SETTLE_MS = 400;
const RELOAD_MS = 30_000;

const MICROSECONDS = { name: "", unit: "µs CPU" };

const FORWARDED_AIMS = [
  { of: "Envoy", atMost: 0.9 },
  { of: "nginx, verifier that remembers", atMost: 1.25 },
  { of: "http-proxy", atMost: 0.85 },
];
/** The other gateways only with `--peers`. */
const COMPARED = FORWARDED_AIMS.map(({ of }) => of);

export const forwarded: Figure = {
  name: "forwarded",
  shows: "a forwarded GET, all checks, beside other gateways",
  quantities: [
    {
      ...MICROSECONDS,
      aims: FORWARDED_AIMS,
    },
  ],
  async prepare(bench) {
    const isWanted = (name: string) => bench.hasPeers || COMPARED.some((part) => name.includes(part));
    const peers = await startGatewayPeers(bench, { path: PATH, tokens: TOKENS, isWanted });
    const ours = await eachSystem(bench, async (system) => {
      const requests = await requestsOf(bench, system, TOKENS);
      return [oursOf(system, () => cpuOfCalls(system, requests, SAMPLE_S))];
    });
    const references = peers.running.map((peer) => ({
      name: peer.name,
      isOurs: false,
      sample: () => cpuOfPeer(peer),
    }));
    return { subjects: [...ours, ...references], missing: peers.missing, end: () => stopAll(peers.running) };
  },
};

export const forwardedManyTokens: Figure = {
  name: "forwarded-many-tokens",
  shows: `the same with ${MANY_TOKENS} live tokens in turn`,
  quantities: [{ ...MICROSECONDS, aims: [{ of: "tokens", atMost: 1.1 }] }],
  async prepare(bench) {
    const subjects = await eachSystem(bench, async (system) => {
      const few = await requestsOf(bench, system, TOKENS);
      const many = await requestsOf(bench, system, MANY_TOKENS);
      // Each is checked once.
      await warmUp(system.url, many, MANY_TOKENS * 1.2);
      return [
        oursOf(system, () => cpuOfCalls(system, many, LONG_SAMPLE_S)),
        besideOf(system, `${TOKENS} tokens`, () => cpuOfCalls(system, few, LONG_SAMPLE_S)),
      ];
    });
    return { subjects };
  },
};

export const forwardedManyRoutes: Figure = {
  name: "forwarded-many-routes",
  shows: `the same with ${MANY_ROUTES} routes`,
  quantities: [{ ...MICROSECONDS, aims: [{ of: "route", atMost: 1.1 }] }],
  async prepare(bench) {
    const names = Array.from({ length: MANY_ROUTES - 1 }, (_, index) => `/upstream-${index}`);
    const one = [routeTo("/payments", bench.upstreamPort)];
    const many = [...names.map((name) => routeTo(name, bench.upstreamPort)), ...one];
    const systems = await bench.systems();
    const subjects = await eachSystem(bench, async (system) => {
      const requests = await requestsOf(bench, system, TOKENS);
      const withRoutes = (routes: readonly object[]) => async () => {
        await system.writeRoutes(routes);
        await until(
          "the gateway reads its routes",
          async () => hasRoute(system, "/upstream-7", routes === many),
          RELOAD_MS,
        );
        await sendLoad(system.url, requests, 1);
        return cpuOfCalls(system, requests, SAMPLE_S);
      };
      return [oursOf(system, withRoutes(many)), besideOf(system, "one route", withRoutes(one))];
    });
    return { subjects, end: () => Promise.all(systems.map((system) => system.writeRoutes(one))) };
  },
};

export const forwardedP99: Figure = {
  name: "forwarded-p99",
  shows: "its time at half of the capacity that was just found, at a steady rate",
  quantities: [
    { name: "", unit: "ms", aims: [{ of: "Envoy", atMost: 1.5 }] },
    { name: "p50", unit: "ms", aims: [] },
    { name: "rate", unit: "/s", aims: [] },
  ],
  async prepare(bench) {
    if (MISSING_RATE !== undefined) return { subjects: [], missing: [MISSING_RATE] };
    const isWanted = (name: string) => ["Envoy", "http-proxy"].some((part) => name.includes(part));
    const peers = await startGatewayPeers(bench, { path: PATH, tokens: TOKENS, isWanted });
    const ours = await eachSystem(bench, async (system) => {
      const requests = await requestsOf(bench, system, TOKENS);
      return [oursOf(system, await timesAtHalf({ url: system.url, requests }))];
    });
    const references: Subject[] = [];
    for (const peer of peers.running)
      references.push({ name: peer.name, isOurs: false, sample: await timesAtHalf(peer) });
    return { subjects: [...ours, ...references], missing: peers.missing, end: () => stopAll(peers.running) };
  },
};

async function timesAtHalf({
  url,
  requests,
}: Pick<RunningGateway, "url" | "requests">): Promise<Subject["sample"]> {
  await warmUp(url, requests, WARM_UP_CALLS);
  const found = await sendLoad(url, requests, SAMPLE_S);
  const perSecond = Math.round(found.requests / found.seconds / 2);
  return async () => {
    // While the others have their turn it rests, and V8 makes its young generation small.
    await sendAtRate(url, requests, { perSecond, seconds: SAMPLE_S });
    const sent = await sendAtRate(url, requests, { perSecond, seconds: LONG_SAMPLE_S });
    return { values: { "": sent.p99, p50: sent.p50, rate: sent.perSecond } };
  };
}

/** A known path without a token is 401, an unknown one 404. */
async function hasRoute({ url }: Gatehouse, path: string, expected: boolean): Promise<boolean> {
  const { status } = await fetch(`${url}${path}`, { signal: AbortSignal.timeout(5_000) });
  return (status === 401) === expected;
}

/** The subjects of each version, made one after the other. */
export async function eachSystem(
  bench: Bench,
  make: (system: Gatehouse) => Promise<Subject[]>,
): Promise<Subject[]> {
  const subjects: Subject[] = [];
  for (const system of await bench.systems()) subjects.push(...(await make(system)));
  return subjects;
}

export const oursOf = ({ version }: Pick<Gatehouse, "version">, sample: Subject["sample"]): Subject => ({
  name: `ours @ ${version.name}`,
  version: version.name,
  isOurs: true,
  sample,
});

/** What ours of the same system are compared with. */
export const besideOf = (
  { version }: Pick<Gatehouse, "version">,
  name: string,
  sample: Subject["sample"],
): Subject => ({
  name,
  version: version.name,
  isOurs: false,
  sample,
});

export async function requestsOf(bench: Bench, system: Gatehouse, count: number): Promise<string> {
  const tokens = await issueTokens(system, count);
  const requests = tokens.map(
    (token) => ({ method: "GET", path: PATH, authorization: `Bearer ${token}` }) as const,
  );
  return writeRequests(bench.folder, `forwarded-${system.version.name}-${count}`, requests);
}

/** CPU of one call of a load, in microseconds, and of each process. */
async function cpuOfCalls(system: Gatehouse, requests: string, seconds: number): Promise<Sample> {
  return cpuEach(system, async () => (await sendLoad(system.url, requests, seconds)).requests);
}

/** @param work says how many calls it has made. @param unitUs of the figure. */
export async function cpuEach(system: Gatehouse, work: () => Promise<number>, unitUs = 1): Promise<Sample> {
  const before = await system.cpuUs();
  const calls = await work();
  const after = await system.cpuUs();
  const names = Object.keys(before) as (keyof typeof before)[];
  const parts = Object.fromEntries(
    names.map((name) => [name, (after[name] - before[name]) / calls / unitUs]),
  );
  return { values: { "": Object.values(parts).reduce((sum, each) => sum + each, 0) }, parts };
}

async function cpuOfPeer(peer: RunningGateway): Promise<Sample> {
  const total = async () => {
    await sleep(SETTLE_MS);
    return peer.processes().reduce((sum, pid) => sum + cpuUs(pid), 0);
  };
  const before = await total();
  const { requests } = await sendLoad(peer.url, peer.requests, SAMPLE_S);
  return { values: { "": ((await total()) - before) / requests } };
}

async function stopAll(peers: readonly RunningGateway[]): Promise<void> {
  for (const peer of peers) await peer.stop();
}
