import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { type Home, openHome } from "./home.ts";
import { launcherState, takeLauncherLock } from "./launcher-lock.ts";
import { printStatus, recordEnd, recordLauncher, stopRunning } from "./running.ts";

let home: Home;
beforeEach(async () => {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-home-"));
  onTestFinished(() => rm(path, { recursive: true }));
  home = await openHome(path);
});

test("a home on which nothing runs, and a folder that is none: 3", async () => {
  expect(await printStatus(home.path)).toBe(3);
  expect(await printStatus(join(home.path, "nothing"))).toBe(3);
  await stopRunning(home.path);
});

test.each([
  ["stauts", "Unknown command: stauts\nDid you mean status?\n"],
  ["--detahc", "Unknown option: --detahc\nDid you mean --detach?\n"],
  ["nonsense", "Unknown command: nonsense\n\nUsage: npm start"],
])("npm start -- %s starts nothing, and names what may be meant", async (typed, problem) => {
  const env = { ...process.env, GATEHOUSE_HOME: home.path };
  const started = spawn(process.execPath, [join(import.meta.dirname, "start.ts"), typed], { env });
  started.stderr.setEncoding("utf8");
  const said = await started.stderr.toArray();
  expect(said.join("").startsWith(problem)).toBe(true);
  expect(started.exitCode ?? (await once(started, "exit"))[0]).toBe(64);
});

test("what a killed launcher left behind does not count as running, and a reason that was given is shown", async () => {
  const print = vi.spyOn(console, "log").mockImplementation(() => undefined);
  onTestFinished(() => print.mockRestore());
  await recordLauncher(home, "http://localhost:1");
  expect(await printStatus(home.path)).toBe(3);
  expect(print.mock.lastCall?.[0]).toContain("it was killed, or the machine was restarted");
  await recordEnd(home, "The end of a.log:\nline\n\ntoken-service ended (signal SIGKILL)\n");
  expect(await printStatus(home.path)).toBe(3);
  expect(print.mock.lastCall?.[0]).toMatch(
    /^It ended at 20\S+Z: token-service ended \(signal SIGKILL\)\nLogs: /,
  );
  expect(print.mock.lastCall?.[0]).toContain(home.logs);
  await recordLauncher(home, "http://localhost:1");
  await printStatus(home.path);
  expect(print.mock.lastCall?.[0]).not.toContain("SIGKILL");
});

test("a signal goes only to the process that both the lock and the home name", async () => {
  const lock = await takeLauncherLock(home.path);
  onTestFinished(() => lock.release());
  expect(await launcherState(home.path)).toEqual({ pid: process.pid, isStopping: false });
  await writeFile(
    home.launcherFile,
    JSON.stringify({ pid: process.ppid, url: "http://x", startedAt: "now" }),
  );
  await expect(stopRunning(home.path)).rejects.toThrow("starting or stopping");
  await expect(printStatus(home.path)).rejects.toThrow("starting or stopping");
  lock.announceStop();
  expect(await launcherState(home.path)).toMatchObject({ isStopping: true });
});

test("while a stop ends what a killed launcher has left, no launcher can begin", async () => {
  const leftover = spawn(
    process.execPath,
    ["-e", "setInterval(() => {}, 1000); console.log()", "-", home.name],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  onTestFinished(() => void leftover.kill("SIGKILL"));
  await once(leftover.stdout, "data");
  const stopped = stopRunning(home.path);
  await expect
    .poll(() => launcherState(home.path), { interval: 5 })
    .toEqual({ pid: process.pid, isStopping: true });
  expect(leftover.signalCode).toBeNull();
  leftover.kill("SIGTERM");
  await stopped;
  expect(await launcherState(home.path)).toBeUndefined();
});

test("a stop in the moment of a start kills nothing of it", async () => {
  const lock = await takeLauncherLock(home.path);
  onTestFinished(() => lock.release());
  await expect(stopRunning(home.path)).rejects.toThrow("starting or stopping");
});
