import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createChangeReader } from "./watch-text-file.ts";

const LONG_MS = 60_000;

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-text-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** A reader for which a long time passes between two looks. */
function lateReader() {
  let nowMs = 0;
  return createChangeReader({
    nowMs() {
      nowMs += LONG_MS;
      return nowMs;
    },
  });
}

test("a change that leaves the file's state as it was is read within two seconds; later nothing is read", async () => {
  const path = join(await temporaryFolder(), "file");
  let nowMs = 10_000;
  const read = createChangeReader({ identify: async () => "one tick", nowMs: () => nowMs });
  const seen: string[] = [];
  for (const [atMs, text] of [
    [10_000, "a"],
    [11_999, "b"],
    [12_000, "c"],
    [12_001, "not read"],
  ] as const) {
    nowMs = atMs;
    await writeFile(path, text);
    seen.push(await read(path));
  }
  expect(seen).toEqual(["a", "b", "c", "c"]);
});

test("a file of the same length is read: written in place, moved over it, or behind a swapped link", async () => {
  const folder = await temporaryFolder();
  for (const version of ["v1", "v2"]) {
    await mkdir(join(folder, version));
    await writeFile(join(folder, version, "file"), version);
  }
  await symlink("v1", join(folder, "data"));
  const path = join(folder, "data", "file");
  const read = lateReader();
  for (let look = 0; look < 3; look += 1) expect(await read(path)).toBe("v1");

  // The clock of the file system may stand still between two writes.
  await expect.poll(() => writeFile(path, "in").then(() => read(path))).toBe("in");
  await writeFile(join(folder, "next"), "mv");
  await rename(join(folder, "next"), path);
  expect(await read(path)).toBe("mv");
  await symlink("v2", join(folder, "next"));
  await rename(join(folder, "next"), join(folder, "data"));
  expect(await read(path)).toBe("v2");
});

test("a file that cannot be read is an error at every look, until it can be read", async () => {
  const path = join(await temporaryFolder(), "file");
  const read = lateReader();
  await mkdir(path);
  for (let look = 0; look < 3; look += 1) await expect(read(path)).rejects.toMatchObject({ code: "EISDIR" });
  await rm(path, { recursive: true });
  await expect(read(path)).rejects.toMatchObject({ code: "ENOENT" });
  await writeFile(path, "back");
  expect(await read(path)).toBe("back");
});
