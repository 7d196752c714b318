/**
 * Imports users into a whole Gatehouse, is killed after a third of them and goes on. Prints how long both took, until the
 * audit log has every user.
 *
 *   npm run bench:user-import -- 1000000
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { apiClient } from "../tests/support/api-client.ts";
import { startSystem } from "../tests/support/system.ts";
import { databaseOfSystem } from "../tests/support/system-database.ts";

const USERS = Number(process.argv[2] ?? 1_000_000);
const CLI = resolve(import.meta.dirname, "..", "cli", "main.ts");
/** Of `Correct-Horse-42`, of cost 10. */
const KNOWN_HASH = "$2b$10$qV8KHX9dXp5Bzkk1dE538uWY6QUIMGbMJe0uV.v0Dtc0CRRqPuOOW";

const folder = await mkdtemp(join(tmpdir(), "gatehouse-user-import-"));
const file = join(folder, "users.ndjson");
await writeUsers();
const system = await startSystem();
const database = await databaseOfSystem(system, "identity");
try {
  const before = await count();
  const startedMs = performance.now();
  const first = runImport();
  while ((await count()) < before + USERS / 3) await sleep(200);
  first.kill("SIGKILL");
  await once(first, "close");
  const killedAt = (await count()) - before;
  const [code] = await once(runImport(), "close");
  const importedS = secondsSince(startedMs);
  while ((await waiting()) > 0) await sleep(200);
  const imported = (await count()) - before;
  console.log(`${imported} of ${USERS} users, killed once after ${killedAt}, exit code ${code}`);
  console.log(`imported in ${importedS.toFixed(0)} s: ${Math.round(USERS / importedS)}/s`);
  console.log(`all in the audit log after ${secondsSince(startedMs).toFixed(0)} s`);
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

async function writeUsers(): Promise<void> {
  const output = createWriteStream(file);
  for (let index = 1; index <= USERS; index += 1) {
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
    if (!output.write(`${JSON.stringify(user)}\n`)) await once(output, "drain");
  }
  output.end();
  await once(output, "close");
}

function runImport() {
  const argv = [CLI, "users", "import", file, "--from", "ndjson", "--output", join(folder, "report.ndjson")];
  return spawn(process.execPath, [...argv, "--home", system.home, "--force", "--progress"], {
    stdio: "inherit",
  });
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

function secondsSince(startedMs: number): number {
  return (performance.now() - startedMs) / 1_000;
}
