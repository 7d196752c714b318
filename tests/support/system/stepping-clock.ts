import { existsSync } from "node:fs";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The line for whoever runs the tests and has no libfaketime. */
export const HOW_TO_GET_FAKETIME = "Tests that step clocks skipped: `apt-get install libfaketime`\n";

const FOLDERS = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map((name) => `/usr/lib/${name}/faketime`);

/** The library that moves the wall clock of a process; the monotonic one goes on. Undefined if it is not installed. */
export const findFaketime = (): string | undefined =>
  FOLDERS.map((folder) => join(folder, "libfaketime.so.1")).find(existsSync);

/** The wall clock of a process, which can be stepped while the process runs. */
export interface SteppingClock {
  /** For the process. */
  environment: Record<string, string>;
  /** @param seconds ahead of the machine's clock. The process sees it within a second. */
  set(seconds: number): Promise<void>;
  remove(): Promise<void>;
}

export async function openSteppingClock(library: string): Promise<SteppingClock> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-clock-"));
  const file = join(folder, "offset");
  const set = async (seconds: number) => {
    // The process reads at any moment: never half a line.
    await writeFile(`${file}.new`, `${seconds < 0 ? "" : "+"}${seconds}\n`);
    await rename(`${file}.new`, file);
  };
  await set(0);
  return {
    environment: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
    set,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
