import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build } from "rolldown";
import { expect, onTestFinished, test } from "vitest";
import { createLogger } from "./logger.ts";
import { inSources } from "./source-places.ts";

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "gatehouse places-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

test("a stack of a bundle names the places in the sources, also in the log", async () => {
  const dir = folder();
  const [source, library] = [join(dir, "main.ts"), join(dir, "library.js")];
  writeFileSync(join(dir, "first.ts"), "console.log('first');\n");
  writeFileSync(library, "export function call(work) {\n  return work();\n}\n");
  writeFileSync(
    source,
    `import "./first.ts";
import { call } from "./library.js";
const name: string = "x";
function fail(): Error {
  return new Error(name);
}
console.log(call(fail).stack);
`,
  );
  const file = join(dir, "dist", "main.mjs");
  // As `deploy/programs/build.ts`, which leaves libraries out of the maps.
  const withoutMap = (code: string, id: string) =>
    id === library ? { code, map: { mappings: "" } } : undefined;
  await build({
    input: source,
    platform: "node",
    plugins: [{ name: "libraries", transform: withoutMap }],
    logLevel: "silent",
    output: { file, sourcemap: true },
  });
  // In a process of its own, because Vitest has maps itself.
  const { stdout } = await promisify(execFile)(process.execPath, [file]);
  const stack = stdout.slice(stdout.indexOf("Error: x"));
  expect(stack).not.toContain(source);

  const [, own, ofLibrary] = inSources(stack).split("\n");
  expect(own).toBe(`    at fail (${source}:5:10)`);
  expect(ofLibrary).toBe(stack.split("\n")[2]);
  expect(ofLibrary).toContain("at call (file://");
  const lines: string[] = [];
  const error = Object.assign(new Error("x"), { stack });
  createLogger("test", "info", { write: (line) => lines.push(line) }).error({ err: error }, "failed");
  expect(lines.join()).toContain(`${source}:5:10`);
});

test("places that have no map stay", () => {
  const dir = folder();
  writeFileSync(join(dir, "broken.mjs.map"), "{");
  const stack = [
    "Error: x at file:///nowhere/a.mjs:1:2 and file:///%zz%2f.mjs:1:2",
    `    at f (${pathToFileURL(join(dir, "broken.mjs"))}:1:2)`,
    "    at node:internal/process/task_queues:104:5",
    "    at file:///work/logger.ts:1:2",
  ].join("\n");
  expect(inSources(stack)).toBe(stack);
});
