import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The line for whoever runs the tests where nothing can be mounted. */
export const HOW_TO_MOUNT = "Tests of a full disk skipped: only root on Linux can mount a small one\n";

const SIZE = "2m";
const CHUNK_BYTES = 4_096;

/** A file system of a fixed size. */
export interface SmallDisk {
  path: string;
  /** Until not a byte more can be written. */
  fill(): Promise<void>;
  free(): Promise<void>;
  remove(): Promise<void>;
}

/** Undefined where this process may not mount one. */
export async function openSmallDisk(): Promise<SmallDisk | undefined> {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-small-disk-"));
  if (!mount(path)) {
    await rm(path, { recursive: true });
    return undefined;
  }
  const ballast = join(path, "ballast");
  return {
    path,
    async fill() {
      const file = await open(ballast, "a");
      try {
        for (;;) await file.write(Buffer.alloc(CHUNK_BYTES));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      } finally {
        await file.close();
      }
    },
    free: () => rm(ballast, { force: true }),
    async remove() {
      spawnSync("umount", ["-l", path]);
      await rm(path, { recursive: true, force: true });
    },
  };
}

/** Whether {@link openSmallDisk} gives one. */
export function canMount(): boolean {
  const path = mkdtempSync(join(tmpdir(), "gatehouse-mount-"));
  const isMounted = mount(path);
  if (isMounted) spawnSync("umount", ["-l", path]);
  rmSync(path, { recursive: true, force: true });
  return isMounted;
}

const mount = (path: string) =>
  spawnSync("mount", ["-t", "tmpfs", "-o", `size=${SIZE}`, "tmpfs", path]).status === 0;
