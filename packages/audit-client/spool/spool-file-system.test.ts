import { mkdir, mkdtemp, open, readdir, readFile, readlink, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { nodeFileSystem as files } from "./spool-file-system.ts";

let path: string;

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), "gatehouse-files-"));
});

afterEach(async () => {
  vi.restoreAllMocks();
  await rm(path, { recursive: true, force: true });
});

test("new and existing files can be written, read, truncated and measured", async () => {
  const created = await files.create(join(path, "a"));
  await created.write(Buffer.from("hello"), 0);
  await created.write(Buffer.from("world"), 5);
  expect(String(await created.read(3, 4))).toBe("lowo");
  await created.close();
  const opened = await files.open(join(path, "a"));
  await opened.truncate(7);
  expect([await opened.size(), String(await opened.read(0, 100))]).toEqual([7, "hellowo"]);
  await opened.close();
  expect(await readFile(join(path, "a"), "utf8")).toBe("hellowo");
});

test("create() fails for an existing file, open() for a missing one", async () => {
  await writeFile(join(path, "a"), "");
  await expect(files.create(join(path, "a"))).rejects.toMatchObject({ code: "EEXIST" });
  await expect(files.open(join(path, "b"))).rejects.toMatchObject({ code: "ENOENT" });
});

test("only the owner may use files and directories", async () => {
  await files.makeDirectory(join(path, "outer", "inner"));
  await (await files.create(join(path, "a"))).close();
  const modeOf = async (name: string) => (await stat(join(path, name))).mode & 0o777;
  expect([await modeOf("a"), await modeOf("outer"), await modeOf("outer/inner")]).toEqual([
    0o600, 0o700, 0o700,
  ]);
  await files.makeDirectory(join(path, "outer")); // being there is no error
});

test("files are listed with relative paths, directories by their names", async () => {
  await mkdir(join(path, "x", "y"), { recursive: true });
  await writeFile(join(path, "a"), "");
  await writeFile(join(path, "x", "y", "b"), "");
  expect((await files.list(path)).sort()).toEqual(["a", "x/y/b"]);
  expect(await files.listDirectories(path)).toEqual(["x"]);
});

test("removal is recursive, and a missing path is no error", async () => {
  await mkdir(join(path, "x"));
  await writeFile(join(path, "x", "b"), "");
  await files.remove(join(path, "x"));
  await files.remove(join(path, "x"));
  expect(await readdir(path)).toEqual([]);
});

test("file contents and directory entries are synced to the disk", async () => {
  const handle = await open(path);
  const prototype = Object.getPrototypeOf(handle) as typeof handle;
  await handle.close();
  const [datasync, sync] = [vi.spyOn(prototype, "datasync"), vi.spyOn(prototype, "sync")];
  const file = await files.create(join(path, "a"));
  await file.datasync();
  expect([datasync.mock.calls.length, sync.mock.calls.length]).toEqual([1, 0]);
  await files.syncDirectory(path);
  expect([datasync.mock.calls.length, sync.mock.calls.length]).toEqual([1, 1]);
  await file.close();
  await expect(files.syncDirectory(join(path, "a"))).rejects.toMatchObject({ code: "ENOTDIR" });
});

test.runIf(process.platform === "linux")("nothing stays open that was closed", async () => {
  const file = await files.create(join(path, "a"));
  await files.syncDirectory(path);
  await file.close();
  const names = await readdir("/proc/self/fd");
  const targets = await Promise.all(names.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
  expect(targets.filter((target) => target.startsWith(path))).toEqual([]);
});
