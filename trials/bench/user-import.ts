/**
 * Imports users into a whole Gatehouse, is killed after a third of them and goes on. Prints how long both took, until the
 * audit log has every user, with the CPU of all processes. Then imports some of them again, and prints how each was refused.
 *
 *   npm run trial -- user-import 1000000 keycloak
 *   taskset -c 0,1 npm run trial -- user-import 1000000 keycloak     # on two cores
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createReadStream, createWriteStream, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import { apiClient } from "#tests/support/people/api-client.ts";
import { startSystem } from "#tests/support/system/system.ts";

const USERS = Number(process.argv[2] ?? 1_000_000);
const SOURCE = process.argv[3] ?? "ndjson";
const REPEATED = Math.min(USERS, 100);
const CLI = resolve(import.meta.dirname, "..", "..", "cli", "main.ts");
/** Hashes `Correct-Horse-42` with cost 10. */
const KNOWN_HASH = "$2b$10$qV8KHX9dXp5Bzkk1dE538uWY6QUIMGbMJe0uV.v0Dtc0CRRqPuOOW";
/** Of `Correct-Horse-42`, with the defaults of Keycloak 26. */
const KNOWN_ARGON2 = {
  salt: "c2l4dGVlbiBieXRlcyEhIQ==",
  value: "D9ZKdI0ulDinhvSWYQ/Ys0j5qN0kinuXPK1WOjw8McM=",
};
const KEYCLOAK_DEFAULTS = {
  hashIterations: 5,
  algorithm: "argon2",
  additionalParameters: {
    hash: ["32"],
    memory: ["7168"],
    type: ["id"],
    version: ["1.3"],
    parallelism: ["1"],
  },
};
const CLOCK_TICKS_PER_S = 100;

const WRITERS: Record<string, (first: number, last: number) => Generator<string>> = {
  ndjson: ndjsonLines,
  keycloak: keycloakLines,
};
const write = WRITERS[SOURCE];
if (write === undefined) throw new Error(`the source is one of ${Object.keys(WRITERS)}`);

const folder = await mkdtemp(join(tmpdir(), "gatehouse-user-import-"));
await writeFileOf("users", 1, USERS);
await writeFileOf("again", 1, REPEATED);
const system = await startSystem();
const database = await databaseOfSystem(system, "identity");
let cliPeakMib = 0;
let servicePeakMib = 0;
let highestLoad = 0;
const identityPid = Number(/^ {2}identity-service +\S+ +(\d+)$/m.exec(system.output())?.[1]);
try {
  console.log(`${availableParallelism()} cores, load ${load()} before`);
  const before = await count();
  const startedMs = performance.now();
  const cpuBeforeS = cpuOfServicesS();
  const first = runImport("users");
  while ((await count()) < before + USERS / 3) await observe(first.pid);
  first.kill("SIGKILL");
  await once(first, "close");
  const killedAt = (await count()) - before;
  const second = runImport("users");
  const ended = once(second, "close");
  while (second.exitCode === null) await observe(second.pid);
  const [code] = await ended;
  const importedS = secondsSince(startedMs);
  while ((await waiting()) > 0) await observe();
  const imported = (await count()) - before;
  const { rows, refused } = await reportOf("users");
  console.log(`${imported} of ${USERS} users, killed once after ${killedAt}, exit code ${code}`);
  console.log(`the report has ${rows} rows, ${refused.length} of them refused`);
  console.log(`imported in ${importedS.toFixed(0)} s: ${Math.round(USERS / importedS)}/s`);
  console.log(`all in the audit log after ${secondsSince(startedMs).toFixed(0)} s`);
  console.log(
    `CPU of the services and PostgreSQL: ${(cpuOfServicesS() - cpuBeforeS).toFixed(0)} s, of the command: ${cpuOfEndedS().toFixed(0)} s`,
  );
  console.log(
    `memory, highest: command ${cliPeakMib.toFixed(0)} MiB, identity-service ${servicePeakMib.toFixed(0)} MiB`,
  );
  console.log(`load ${load()} after, ${highestLoad.toFixed(1)} at most`);
  const [codeAgain] = await once(runImport("again"), "close");
  const again = await reportOf("again");
  const names = new Set(again.refused.map((row) => row.refused));
  console.log(
    `${again.rows} of them again: ${again.refused.length} refused as ${[...names]}, exit code ${codeAgain}`,
  );
  const { user } = await apiClient(system.url).logIn({
    email: "user1@example.com",
    password: "Correct-Horse-42",
  });
  console.log(`the first one has logged in: ${user.id}`);
} finally {
  await database.sql.end({ timeout: 2 });
  await system.remove();
  await rm(folder, { recursive: true });
}

async function writeFileOf(name: string, first: number, last: number): Promise<void> {
  const output = createWriteStream(join(folder, name));
  for (const line of (write as NonNullable<typeof write>)(first, last)) {
    if (!output.write(line)) await once(output, "drain");
  }
  output.end();
  await once(output, "close");
}

function* ndjsonLines(first: number, last: number): Generator<string> {
  for (let index = first; index <= last; index += 1) {
    const hash =
      index === 1
        ? KNOWN_HASH
        : `$2b$10$${"./".repeat(11).slice(0, 21)}u${randomBytes(23).toString("hex").slice(0, 30)}u`;
    const user = {
      id: `old-${index}`,
      email: `user${index}@example.com`,
      emailVerified: true,
      name: `Ada Lovelace ${index}`,
      passwordHash: hash,
    };
    yield `${JSON.stringify(user)}\n`;
  }
}

/** As `kc.sh export --users realm_file` writes a realm. */
function* keycloakLines(first: number, last: number): Generator<string> {
  yield `{"id":"shop","realm":"shop","enabled":true,"users":[`;
  for (let index = first; index <= last; index += 1) {
    const secret =
      index === 1
        ? KNOWN_ARGON2
        : { value: randomBytes(32).toString("base64"), salt: randomBytes(16).toString("base64") };
    const password = {
      id: `credential-${index}`,
      type: "password",
      createdDate: 1_700_000_000_000,
      secretData: JSON.stringify({ ...secret, additionalParameters: {} }),
      credentialData: JSON.stringify(KEYCLOAK_DEFAULTS),
    };
    const user = {
      id: `old-${index}`,
      username: `user${index}`,
      firstName: "Ada",
      lastName: `Lovelace ${index}`,
      email: `user${index}@example.com`,
      emailVerified: true,
      createdTimestamp: 1_700_000_000_000,
      enabled: true,
      totp: false,
      credentials: [password],
      disableableCredentialTypes: [],
      requiredActions: [],
      realmRoles: ["default-roles-shop"],
      notBefore: 0,
      groups: [],
    };
    yield `${index === first ? "" : ","}\n${JSON.stringify(user)}`;
  }
  yield "\n]}\n";
}

function runImport(name: string) {
  const report = join(folder, `${name}.report`);
  const argv = [CLI, "users", "import", join(folder, name), "--from", SOURCE, "--output", report];
  return spawn(process.execPath, [...argv, "--home", system.home, "--force"], {
    stdio: "inherit",
  });
}

async function reportOf(name: string): Promise<{ rows: number; refused: { refused: string }[] }> {
  const refused: { refused: string }[] = [];
  let rows = 0;
  for await (const line of createInterface({ input: createReadStream(join(folder, `${name}.report`)) })) {
    rows += 1;
    const row = JSON.parse(line);
    if (row.refused !== undefined) refused.push(row);
  }
  return { rows, refused };
}

async function count(): Promise<number> {
  const [row] = await database.sql<{ rows: number }[]>`select count(*)::int as rows from users`;
  return row?.rows ?? 0;
}

async function waiting(): Promise<number> {
  const [row] = await database.sql<{ rows: number }[]>`
    select count(*)::int as rows from security_events where recorded_at is null`;
  return row?.rows ?? 0;
}

async function observe(pid?: number): Promise<void> {
  await sleep(1_000);
  cliPeakMib = Math.max(cliPeakMib, peakMib(pid));
  servicePeakMib = Math.max(servicePeakMib, peakMib(identityPid));
  highestLoad = Math.max(highestLoad, loadavg()[0] ?? 0);
}

/** As Linux counts it; elsewhere 0. */
function peakMib(pid: number | undefined): number {
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(readProc(`${pid}/status`))?.[1] ?? 0) / 1_024;
}

/** Of the launcher's children, PostgreSQL's workers included: of those that have ended by their parent. */
function cpuOfServicesS(): number {
  const pids = [...system.output().matchAll(/^ {2}\S+ +127\.0\.0\.1:\d+ +(\d+)$/gm)].map((row) =>
    Number(row[1]),
  );
  return [...pids, ...pids.flatMap(childrenOf)].reduce((sum, pid) => sum + cpuOf(pid, [0, 1, 2, 3]), 0);
}

/** Of the commands, which have ended. */
function cpuOfEndedS(): number {
  return cpuOf("self", [2, 3]);
}

function childrenOf(pid: number): number[] {
  return readProc(`${pid}/task/${pid}/children`).trim().split(" ").filter(Boolean).map(Number);
}

/** Adds utime, stime, cutime and cstime. */
function cpuOf(pid: number | "self", fields: readonly number[]): number {
  const times = readProc(`${pid}/stat`).split(") ")[1]?.split(" ").slice(11, 15) ?? [];
  return fields.reduce((sum, field) => sum + Number(times[field] ?? 0), 0) / CLOCK_TICKS_PER_S;
}

function readProc(path: string): string {
  try {
    return readFileSync(join("/proc", path), "utf8");
  } catch {
    return "";
  }
}

function load(): string {
  return (loadavg()[0] ?? 0).toFixed(1);
}

function secondsSince(startedMs: number): number {
  return (performance.now() - startedMs) / 1_000;
}
