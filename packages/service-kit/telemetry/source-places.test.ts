import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "rolldown";
import { expect, onTestFinished, test } from "vitest";
import { createLogger } from "./logger.ts";
import { inSources } from "./source-places.ts";

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "gatehouse-places-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

test("a stack of a bundle names the places in the sources, also in the log", async () => {
  const dir = folder();
  const source = join(dir, "main.ts");
  writeFileSync(
    source,
    `const name: string = "x";\n\nfunction fail(): Error {\n  return new Error(name);\n}\nconsole.log(fail().stack);\n`,
  );
  const file = join(dir, "dist", "main.mjs");
  await build({ input: source, platform: "node", logLevel: "silent", output: { file, sourcemap: true } });
  // In a process of its own, because Vitest has maps itself.
  const { stdout: stack } = await promisify(execFile)(process.execPath, [file]);
  expect(stack).not.toContain(source);

  expect(inSources(stack).split("\n")[1]).toBe(`    at fail (${source}:4:10)`);
  const lines: string[] = [];
  const error = Object.assign(new Error("x"), { stack });
  createLogger("test", "info", { write: (line) => lines.push(line) }).error({ err: error }, "failed");
  expect(lines.join()).toContain(`${source}:4:10`);
});

test("places that have no map stay", () => {
  const dir = folder();
  writeFileSync(join(dir, "broken.mjs.map"), "{");
  const stack = [
    "Error: x at file:///nowhere/a.mjs:1:2",
    `    at f (file://${join(dir, "broken.mjs")}:1:2)`,
    "    at node:internal/process/task_queues:104:5",
    "    at file:///work/logger.ts:1:2",
  ].join("\n");
  expect(inSources(stack)).toBe(stack);
});
