import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { startDetached } from "./detached-start.ts";
import { type Home, openHome } from "./home.ts";

const FIXTURE = join(import.meta.dirname, "detached-start.fixture.ts");
const START = { fresh: false, sets: ["GATEHOUSE_REDIS_URL=redis://:a-password@h"], folder: "/a/folder" };

let home: Home;
let reported: unknown[];
beforeEach(async () => {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-home-"));
  onTestFinished(() => rm(path, { recursive: true }));
  home = await openHome(path);
  reported = [];
  const spy = vi
    .spyOn(console, "log")
    .mockImplementation((text: string) => void reported.push(JSON.parse(text)));
  onTestFinished(() => spy.mockRestore());
});

test("a detached start gets what was asked for, with the folder of relative paths, and nothing of it in its arguments", async () => {
  await startDetached(home, FIXTURE, START);
  expect(reported).toEqual([{ args: [], start: START, folder: process.cwd() }]);
});

test("a start whose starter is gone goes on", async () => {
  const start = { ...START, sets: ["alone"] };
  const env = { ...process.env, GATEHOUSE_DETACHED_START: JSON.stringify(start) };
  const child = fork(FIXTURE, { env, execArgv: [], stdio: ["ignore", "ignore", "pipe", "ipc"] });
  let said = "";
  child.stderr?.on("data", (data) => (said += data));
  const exit = once(child, "exit");
  child.disconnect();
  const [code] = await exit;
  expect({ code, said }).toEqual({ code: 0, said: "" });
});

test("of two at once one starts, and the other leaves its log alone", async () => {
  const both = await Promise.allSettled([
    startDetached(home, FIXTURE, START),
    startDetached(home, FIXTURE, START),
  ]);
  expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const refused = both.find(({ status }) => status === "rejected");
  expect(refused).toMatchObject({ reason: { message: expect.stringContaining("is being started") } });
  expect(existsSync(join(home.logs, "npm-start.log"))).toBe(true);
  expect(existsSync(join(home.logs, "npm-start.log.1"))).toBe(false);
  await startDetached(home, FIXTURE, START);
  expect(existsSync(join(home.logs, "npm-start.log.1"))).toBe(true);
});
