import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { runInTerminal } from "./run.ts";

const SUMS = "SHA256SUMS";

/** As `sha256sum` writes and checks them. */
export async function writeChecksums(folder: string): Promise<void> {
  const names = (await readdir(folder)).sort();
  const lines: string[] = [];
  for (const name of names) {
    const digest = createHash("sha256");
    await pipeline(createReadStream(join(folder, name)), digest);
    lines.push(`${digest.digest("hex")}  ${name}\n`);
  }
  await writeFile(join(folder, SUMS), lines.join(""));
}

/** Writes `SHA256SUMS.minisig`. Asks for the password of the key, if it has one. @param comment is signed, too. */
export async function sign(folder: string, key: string, comment: string): Promise<void> {
  await runInTerminal("minisign", [
    "-S",
    "-s",
    key,
    "-t",
    comment,
    "-c",
    "signature of a release",
    "-m",
    join(folder, SUMS),
  ]);
}
