import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startEmbeddedPostgres } from "./embedded-postgres.ts";

/** A data directory with the lock of this process. */
async function lockedData(folder: string, pid: number): Promise<string> {
  const dataDirectory = join(folder, "postgres");
  await writeFile(join(dataDirectory, "PG_VERSION"), "18\n");
  await writeFile(join(dataDirectory, "postmaster.pid"), `${pid}\n${dataDirectory}\n`);
  return dataDirectory;
}

async function emptyFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-embedded-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, "postgres"));
  return folder;
}

/** A process that works in a directory. */
async function processIn(cwd: string): Promise<number> {
  const child = spawn(process.execPath, ["-e", "process.send('runs'); setInterval(() => {}, 1000)"], {
    cwd,
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  });
  await once(child, "message");
  return child.pid ?? 0;
}

const start = (folder: string, dataDirectory: string) =>
  startEmbeddedPostgres({
    dataDirectory,
    port: 1,
    password: "not used",
    logFile: join(folder, "postgres.log"),
    durable: false,
  });

test("a PostgreSQL that no launcher has started keeps its data and its lock", async () => {
  const folder = await emptyFolder();
  const pid = await processIn(join(folder, "postgres"));
  const dataDirectory = await lockedData(folder, pid);
  await expect(start(folder, dataDirectory)).rejects.toThrow(`PostgreSQL (process ${pid}) already runs`);
  expect(await readFile(join(dataDirectory, "postmaster.pid"), "utf8")).toContain(String(pid));
});

test("the lock of a server that has ended stops no start, whatever program has its process id", async () => {
  const folder = await emptyFolder();
  const dataDirectory = await lockedData(folder, await processIn(folder));
  // The directory has nothing but the lock, so PostgreSQL itself refuses it.
  await expect(start(folder, dataDirectory)).rejects.toThrow("postgresql.conf");
  await expect(readFile(join(dataDirectory, "postmaster.pid"))).rejects.toMatchObject({ code: "ENOENT" });
});
