import { appendFile, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { hashLines, writeTestList } from "#breach-list/test-list.fixture.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { type WatchedBreachList, watchBreachList } from "./watch-breach-list.ts";

const BUILT_AT = new Date("2031-01-01T00:00:00Z");
const DAY_MS = 86_400_000;

let folder: string;
let path: string;
let lines: string[];
let metrics: ReturnType<typeof createMetrics>;
let now: Date;
const watched: WatchedBreachList[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-watched-list-"));
  path = join(folder, "breached.list");
  lines = [];
  metrics = createMetrics("identity-service");
  now = new Date(BUILT_AT.getTime() + DAY_MS);
});

afterEach(async () => {
  for (const list of watched.splice(0)) await list.close();
  await rm(folder, { recursive: true });
});

/** By a rename, as `breach-list build` does. */
async function publish(passwords: string[], label = "first", builtAt = BUILT_AT): Promise<void> {
  const next = join(folder, `next-${Math.random()}`);
  await writeTestList(next, hashLines(passwords), { label, builtAt });
  await rename(next, path);
}

async function watch(): Promise<WatchedBreachList> {
  const logger = createLogger("identity-service", "info", { write: (line) => void lines.push(line) });
  const list = await watchBreachList({
    path,
    maxAgeDays: 30,
    now: () => now,
    logger,
    metrics,
    lookEveryMs: 20,
  });
  watched.push(list);
  return list;
}

async function metric(name: string): Promise<number> {
  return Number(new RegExp(`^gatehouse_breach_list_${name} (\\S+)$`, "m").exec(await metrics.render())?.[1]);
}

const service = 'service="identity-service"';
const logged = (text: string) => lines.filter((line) => line.includes(text));

test("passwords of the list are breached, in any normal form, and every look-up is counted", async () => {
  await publish(["letmein please", "caf\u00e9 au lait"]);
  const list = await watch();
  expect(await list.isBreached("letmein please")).toBe(true);
  expect(await list.isBreached("cafe\u0301 au lait")).toBe(true);
  expect(await list.isBreached("letmein pleasE")).toBe(false);
  expect(await metric(`lookups_total\\{outcome="breached",${service}\\}`)).toBe(2);
  expect(await metric(`lookups_total\\{outcome="clean",${service}\\}`)).toBe(1);
  expect(await metric(`entries\\{${service}\\}`)).toBe(2);
});

test("without a valid list there is no start", async () => {
  await expect(watch()).rejects.toThrow(`${path} cannot be read (ENOENT)`);
  await writeFile(path, hashLines(["a"]));
  await expect(watch()).rejects.toThrow(`${path} cannot be used: it is a list of hashes`);
});

test("a replaced list is used without a restart, also by a swapped link", async () => {
  await publish(["first"]);
  const list = await watch();
  await publish(["second"], "the second");
  await expect.poll(() => list.isBreached("second")).toBe(true);
  expect(await list.isBreached("first")).toBe(false);
  expect(logged("the second")).toHaveLength(1);

  await writeTestList(join(folder, "third.list"), hashLines(["third"]));
  await symlink("third.list", join(folder, "link"));
  await rename(join(folder, "link"), path);
  await expect.poll(() => list.isBreached("third")).toBe(true);
});

test("a bad new list is refused by name once, the former one goes on, and a later good one is used", async () => {
  await publish(["first"]);
  const list = await watch();
  expect(await metric(`refused\\{${service}\\}`)).toBe(0);
  await writeFile(join(folder, "bad"), "not a list");
  await rename(join(folder, "bad"), path);
  await expect.poll(() => metric(`refused\\{${service}\\}`)).toBe(1);
  expect(await list.isBreached("first")).toBe(true);
  expect(logged("it is no breach list")).toHaveLength(1);
  expect(logged("it is no breach list")[0]).toContain(path);

  await publish(["second"]);
  await expect.poll(() => list.isBreached("second")).toBe(true);
  expect(await metric(`refused\\{${service}\\}`)).toBe(0);
  expect(logged("it is no breach list")).toHaveLength(1);
});

test("a list that is gone changes nothing but is logged", async () => {
  await publish(["first"]);
  const list = await watch();
  await rm(path);
  await expect.poll(() => metric(`refused\\{${service}\\}`)).toBe(1);
  expect(await list.isBreached("first")).toBe(true);
  expect(logged("ENOENT")).toHaveLength(1);
});

test("a list that was changed in place is not trusted: the password passes, counted as failed", async () => {
  await publish(["first"]);
  const list = await watch();
  await appendFile(path, "x");
  expect(await list.isBreached("first")).toBe(false);
  expect(await metric(`lookups_total\\{outcome="failed",${service}\\}`)).toBe(1);
  expect(logged("was changed in place")).toHaveLength(1);
});

test("a list that becomes too old is logged once, goes on, and its replacement is new again", async () => {
  await publish(["first"]);
  const list = await watch();
  expect(await metric(`old_at_seconds\\{${service}\\}`)).toBe(BUILT_AT.getTime() / 1_000 + 30 * 86_400);
  now = new Date(BUILT_AT.getTime() + 30 * DAY_MS - 1);
  await publish(["second"]);
  await expect.poll(() => list.isBreached("second")).toBe(true);
  expect(logged("too old")).toEqual([]);
  now = new Date(BUILT_AT.getTime() + 30 * DAY_MS);
  await expect.poll(() => logged("too old").length).toBe(1);
  expect(await list.isBreached("second")).toBe(true);

  await publish(["third"], "third", now);
  await expect.poll(() => list.isBreached("third")).toBe(true);
  expect(logged("too old")).toHaveLength(1);
});
