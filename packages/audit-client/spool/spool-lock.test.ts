import { mkdir, mkdtemp, readdir, readlink, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isLocked, lockDirectory } from "./spool-lock.ts";

const { platform } = process;
let path: string;

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), "gatehouse-lock-"));
});

afterEach(async () => {
  Object.defineProperty(process, "platform", { value: platform });
  await rm(path, { recursive: true, force: true });
});

test("a directory stays locked until the release", async () => {
  expect(await isLocked(path)).toBe(false);
  const lock = await lockDirectory(path);
  expect(await isLocked(path)).toBe(true);
  await lock.release();
  expect(await isLocked(path)).toBe(false);
});

test("a missing directory is not locked", async () => {
  expect(await isLocked(join(path, "gone"))).toBe(false);
});

test("a directory counts as locked in doubt; one that cannot be opened is an error", async () => {
  await symlink("lock", join(path, "lock"));
  expect(await isLocked(path)).toBe(true);
  await symlink("loop", join(path, "loop"));
  await expect(isLocked(join(path, "loop"))).rejects.toMatchObject({ code: "ELOOP" });
});

test.runIf(platform === "linux")("looking at a lock, and making one, leaves no directory open", async () => {
  const openHere = async () => {
    const names = await readdir("/proc/self/fd");
    const targets = await Promise.all(names.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
    return targets.filter((target) => target === path).length;
  };
  const lock = await lockDirectory(path);
  await isLocked(path);
  await lock.release();
  expect(await openHere()).toBe(0);
});

test("without /proc the path must not exceed the limit of a socket path", async () => {
  Object.defineProperty(process, "platform", { value: "darwin" });
  const pathOf = (bytes: number) => join(path, "d".repeat(bytes - join(path, "", "lock").length - 1));
  await mkdir(pathOf(103));
  const lock = await lockDirectory(pathOf(103));
  expect(await isLocked(pathOf(103))).toBe(true);
  await lock.release();
  await mkdir(pathOf(104));
  await expect(lockDirectory(pathOf(104))).rejects.toThrow("too long");
});
