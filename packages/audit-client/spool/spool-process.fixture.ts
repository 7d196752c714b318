import { appendFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { Spool } from "./spool.ts";
import { SpoolDirectory } from "./spool-directory.ts";
import { nodeFileSystem as files } from "./spool-file-system.ts";

/** Writes each group of entries to a file, then a torn record, and waits. */
const [path = "", producerId = "", groups = "[]"] = process.argv.slice(2);
const directory = await SpoolDirectory.open({
  files,
  path,
  name: producerId,
  logger: pino({ level: "silent" }),
});
const spool = new Spool({
  files,
  directory: directory.own,
  damagedDirectory: directory.damaged,
  producerId,
  maxBytes: 1_000_000,
  bytesOfOthers: () => 0,
  onDamage: () => undefined,
  segmentBytes: 1,
});
for (const [first, last] of JSON.parse(groups) as [number, number][]) {
  const sequences = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  await spool.append(sequences.map((sequence) => ({ sequence, entry: Buffer.from(`entry ${sequence}`) })));
}
const names = readdirSync(directory.own).filter((name) => name.endsWith(".spool"));
appendFileSync(join(directory.own, names.sort().at(-1) ?? ""), Buffer.from([0, 0, 0, 9, 1, 2, 3]));
process.stdout.write("written\n");
setInterval(() => undefined, 1_000);
