import { execFileSync } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { checkOut, findCommit, ROOT, type Version } from "../../rolling/version.ts";
import type { Bench } from "../support/bench.ts";
import { Gatehouse } from "../support/gatehouse.ts";
import { logIn, newPeople, refresh } from "../support/people.ts";
import { memoryMb } from "../support/processes.ts";
import { sendLoad } from "../support/send-load.ts";
import { runMany } from "../support/workbench.ts";
import type { Figure, Sample } from "./figure.ts";
import { oursOf, requestsOf } from "./forwarded.ts";

/** What an operator sees before any call: memory, time to start, disk. */

const REST_MS = 10_000;
const LOAD_S = 10;
const PEOPLE = 100;
const LOGINS = 300;
const REFRESHES = 1_000;

export const memory: Figure = {
  name: "memory",
  shows: "of all services (PSS), ten seconds after their start, and after a load",
  quantities: [
    { name: "at rest, of the largest", unit: "MB", aims: [{ atMost: 90 }] },
    { name: "after load, of all", unit: "MB", aims: [{ atMost: 350 }] },
  ],
  coldRounds: 1,
  prepare: async (bench) => ({
    subjects: bench.versions.map((version) => oursOf({ version }, () => memoryOf(bench, version))),
  }),
};

async function memoryOf(bench: Bench, version: Version): Promise<Sample> {
  const system = await Gatehouse.start(version, { upstreamPort: bench.upstreamPort });
  bench.atEnd(() => system.remove());
  const memories = () => system.services.map((name) => [name, memoryMb(system.pids[name])] as const);
  await sleep(REST_MS);
  const atRest = memories();
  await sendLoad(system.url, await requestsOf(bench, system, PEOPLE), LOAD_S);
  const people = await newPeople(system, PEOPLE);
  const personOf = (index: number) =>
    people[index % PEOPLE] ?? { email: "", accessToken: "", refreshToken: "", device: "" };
  await runMany(LOGINS, 4, (index) => logIn(system, personOf(index)));
  await runMany(REFRESHES, 8, (index) => refresh(system, personOf(index)));
  const afterLoad = memories();
  await system.remove();
  const values = {
    "at rest, of the largest": Math.max(...atRest.map(([, mb]) => mb)),
    "after load, of all": afterLoad.reduce((sum, [, mb]) => sum + mb, 0),
  };
  return { values, parts: Object.fromEntries(atRest) };
}

export const start: Figure = {
  name: "start",
  shows: "npm start until ready: the first after npm ci, of the commit without changes since; and the next",
  quantities: [
    { name: "first", unit: "s", aims: [{ atMost: 6 }] },
    { name: "next", unit: "s", aims: [{ atMost: 2.5 }] },
  ],
  coldRounds: 3,
  async prepare(bench) {
    return {
      subjects: bench.versions.map((version) => {
        // Not here, because others may use its caches.
        const { root } = version.root === ROOT ? checkOut(findCommit("HEAD")) : version;
        return oursOf({ version }, () => startsOf(bench, { ...version, root }));
      }),
    };
  },
};

async function startsOf(bench: Bench, version: Version): Promise<Sample> {
  for (const made of ["node_modules/.cache", "web/dist", "dist"])
    await rm(join(version.root, made), { recursive: true, force: true });
  const first = await Gatehouse.start(version);
  bench.atEnd(() => first.remove());
  await first.stop();
  const next = await Gatehouse.start(version, { again: first });
  bench.atEnd(() => next.remove());
  await next.remove();
  return { values: { first: first.startedInMs / 1_000, next: next.startedInMs / 1_000 } };
}

export const install: Figure = {
  name: "install",
  shows: "node_modules on the disk",
  quantities: [{ name: "", unit: "MB", aims: [{ atMost: 600 }] }],
  coldRounds: 1,
  prepare: async (bench) => ({
    subjects: bench.versions.map((version) =>
      oursOf({ version }, async () => {
        const args = ["-sk", "--exclude=.cache", "--exclude=.vite*", join(version.root, "node_modules")];
        const text = execFileSync("du", args, { encoding: "utf8" });
        return { values: { "": (Number.parseInt(text, 10) * 1_024) / 1e6 } };
      }),
    ),
  }),
};
