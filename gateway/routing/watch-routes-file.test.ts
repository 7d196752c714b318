import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { watchRoutesFile } from "./watch-routes-file.ts";

let folder: string;
let watch: ReturnType<typeof watchRoutesFile>;
let taken: string[][];
let log: string;
let metrics: ReturnType<typeof createMetrics>;
let reads: number;
const routes = (prefix: string) =>
  `routes: [{ prefix: ${prefix}, upstream: 'http://a', methods: { GET: { auth: public } } }]`;

/** As Kubernetes mounts a ConfigMap: a link to a folder, which is swapped. */
async function publish(version: string, text: string): Promise<void> {
  await mkdir(join(folder, version));
  await writeFile(join(folder, version, "routes.yaml"), text);
  await symlink(version, join(folder, "next"));
  await rename(join(folder, "next"), join(folder, "data"));
}

/** Until one complete read has begun and ended. */
async function lookedAgain(): Promise<void> {
  const before = reads;
  // Reads do not overlap: when the second begins, the first has ended.
  await expect.poll(() => reads).toBeGreaterThan(before + 1);
}

function write(line: string): void {
  log += line;
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-routes-"));
  taken = [];
  log = "";
  metrics = createMetrics("gateway");
  reads = 0;
  await publish("v1", routes("/a"));
  watch = watchRoutesFile({
    path: join(folder, "data", "routes.yaml"),
    text: routes("/a"),
    proxies: { replace: (all) => void taken.push(all.map(({ prefix }) => prefix)) },
    hosts: new Set(["gateway.test"]),
    logger: createLogger("gateway", "info", { write }),
    metrics,
    lookEveryMs: 20,
    read(path) {
      reads += 1;
      return readFile(path, "utf8");
    },
  });
});

afterEach(async () => {
  await watch.stop();
  await rm(folder, { recursive: true });
});

test("a file that says something else is taken, also by a swapped link; one that does not, is not", async () => {
  await lookedAgain();
  expect(taken).toEqual([]);
  await publish("v2", routes("/b"));
  await expect.poll(() => taken).toEqual([["/b"]]);
});

test("an invalid file changes nothing and is logged once with its line; a later valid one is used", async () => {
  const refusals = async () =>
    /_reloads_total\{result="refused",.*\} (\d+)/.exec(await metrics.render())?.[1];
  expect(await refusals()).toBe("0");
  await publish("v2", "routes:\n  - prefix: /auth");
  await expect.poll(() => log).toContain("line 2, routes.0.prefix");
  await lookedAgain();
  expect(log.trim().split("\n")).toHaveLength(1);
  expect(await refusals()).toBe("1");
  expect(taken).toEqual([]);
  await publish("v3", routes("/c"));
  await expect.poll(() => taken).toEqual([["/c"]]);
});

test("a file that is gone changes nothing", async () => {
  await rm(join(folder, "data"));
  await expect.poll(() => log).toContain("ENOENT");
  expect(taken).toEqual([]);
});

test("a file with an audience that is the gateway itself changes nothing", async () => {
  await publish("v2", routes("/b").replace("prefix:", "audience: 'http://gateway.test', prefix:"));
  await expect.poll(() => log).toContain("is the gateway's own origin");
  expect(taken).toEqual([]);
  await publish("v3", routes("/c").replace("prefix:", "audience: payments, prefix:"));
  await expect.poll(() => taken).toEqual([["/c"]]);
});
