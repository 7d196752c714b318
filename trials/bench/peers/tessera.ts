import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { missingFile } from "./identity-support.ts";
import { INSTALLED } from "./peer.ts";

const TIMEOUT_MS = 120_000;

/** A transparency log as a library, in one process, without network, columns, index and queries. */
export const TESSERA = {
  name: "tessera, POSIX",
  missing: () => missingFile("tessera", "bin", "tessera"),
};

/** Entries of 650 bytes, in batches of up to 256, at most 2,000 waiting: as many a second became durable. */
export async function tesseraRate(entries: number): Promise<{ perSecond: number; cpuUs: number }> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-bench-tessera-"));
  try {
    const args = [join(folder, "log"), String(entries)];
    const { stdout } = await promisify(execFile)(join(INSTALLED, "bin", "tessera"), args, {
      timeout: TIMEOUT_MS,
    });
    return JSON.parse(stdout);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
