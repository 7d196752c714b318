import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { directoryName, endLeftovers } from "./leftovers.ts";

/** A process with this argument, once it runs. It ignores every request to end. */
async function stubborn(name: string): Promise<ChildProcess> {
  const script =
    "for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => {}); process.send('runs')";
  const child = spawn(process.execPath, ["-e", `${script}; setInterval(() => {}, 1000)`, name], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "message");
  return child;
}

test("only processes with the home's name as an argument are killed", async () => {
  const [ours, database, other] = await Promise.all(
    ["gatehouse-leftover", "gatehouse-leftover-postgres", "gatehouse-other"].map(stubborn),
  );
  await endLeftovers("gatehouse-leftover", 0);
  await expect.poll(() => [ours, database].map((child) => child?.signalCode)).toEqual(["SIGKILL", "SIGKILL"]);
  expect(other?.signalCode).toBeNull();
});

test("processes that end by themselves are awaited", async () => {
  const [first, last] = [await stubborn("gatehouse-orderly"), await stubborn("gatehouse-orderly")];
  const waited = endLeftovers("gatehouse-orderly", 60_000);
  first.kill("SIGUSR2");
  await once(first, "exit");
  await endLeftovers("gatehouse-nobody", 0); // as long as a look takes
  last.kill("SIGUSR2");
  await waited;
  await expect.poll(() => last.signalCode).toBe("SIGUSR2");
});

test("a home has the same name for every path", async () => {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-name-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await symlink(folder, join(folder, "link"));
  expect(await directoryName(join(folder, "link"))).toBe(await directoryName(folder));
  expect(await directoryName(tmpdir())).not.toBe(await directoryName(folder));
});
