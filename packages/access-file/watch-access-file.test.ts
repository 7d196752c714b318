import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import { parseAccessFile, SHIPPED_ACCESS_FILE } from "./access-file.ts";
import { AccessTable } from "./access-rules.ts";
import { watchAccessFile } from "./watch-access-file.ts";

let folder: string;
let table: AccessTable;
let metrics: Metrics;
let watch: ReturnType<typeof watchAccessFile>;
const lines: string[] = [];
const log = () => lines.join("");

/** As Kubernetes mounts a ConfigMap: a link to a folder, which is swapped. */
async function publish(version: string, text: string): Promise<void> {
  await mkdir(join(folder, version));
  await writeFile(join(folder, version, "access.yaml"), text);
  await symlink(version, join(folder, "next"));
  await rename(join(folder, "next"), join(folder, "data"));
}

const isRefused = async () =>
  Number(/^gatehouse_access_file_refused\{[^}]*\} (\d)$/m.exec(await metrics.render())?.[1]);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-access-"));
  lines.length = 0;
  const text = await readFile(SHIPPED_ACCESS_FILE, "utf8");
  await publish("v1", text);
  table = new AccessTable(parseAccessFile(text));
  metrics = createMetrics("gateway");
  watch = watchAccessFile({
    path: join(folder, "data", "access.yaml"),
    text,
    table,
    metrics,
    assertFits({ roles }) {
      if ("MISFIT" in roles) throw new Error("MFA_REQUIRED_ROLES: must be a comma list of roles");
    },
    logger: createLogger("gateway", "info", { write: (line) => void lines.push(line) }),
  });
});

afterEach(async () => {
  await watch.stop();
  await rm(folder, { recursive: true });
});

test("a change is in force within a second", async () => {
  await publish("v2", "roles: { ADMIN: ['*'], USER: [], CLERK: [audit:read] }\ndefaultRole: USER");
  await expect.poll(() => table.holds("CLERK", "audit:read"), { timeout: 1_000, interval: 20 }).toBe(true);
  expect(table.holds("USER", "payments:read")).toBe(false);
  expect(table.isDefined("SUPPORT")).toBe(false);
});

test("a wrong file is refused whole: every problem is in the log, the last good one goes on, a metric says so", async () => {
  expect(await isRefused()).toBe(0);
  await publish("v2", "roles: { ADMIN: [], USER: [], CLERK: [audit:read] }\ndefaultRole: GUEST");
  await expect.poll(isRefused).toBe(1);
  expect(log()).toContain("line 1, roles.ADMIN: must be");
  expect(log()).toContain("line 2, defaultRole: is not among roles");
  expect([table.isDefined("CLERK"), table.holds("USER", "payments:read")]).toEqual([false, true]);
  await publish("v3", "roles: { ADMIN: ['*'], USER: [] }\ndefaultRole: USER");
  await expect.poll(isRefused).toBe(0);
  expect(table.holds("USER", "payments:read")).toBe(false);
});

test("a file that would stop the next start is refused by the running service", async () => {
  await publish("v2", "roles: { ADMIN: ['*'], USER: [], MISFIT: [audit:read] }\ndefaultRole: USER");
  await expect.poll(isRefused).toBe(1);
  expect(log()).toContain("MFA_REQUIRED_ROLES: must be a comma list of roles");
  expect([table.isDefined("MISFIT"), table.holds("USER", "payments:read")]).toEqual([false, true]);
});
