import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { replaceFile } from "./replaced-file.ts";

test("the second Ctrl-C leaves no temporary file behind", () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-replaced-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const script = `
    import { once } from "node:events";
    import { setTimeout as sleep } from "node:timers/promises";
    import { replaceFile } from ${JSON.stringify(join(import.meta.dirname, "replaced-file.ts"))};
    const interrupt = () => process.kill(process.pid, "SIGINT");
    await replaceFile(${JSON.stringify(join(folder, "file"))}, { force: true }, async (_file, signal) => {
      const running = setInterval(() => undefined, 1_000);
      interrupt();
      await once(signal, "abort");
      interrupt(); // Without a handler it ends the process at once.
      await sleep(1);
      clearInterval(running);
    }).catch(({ code }) => console.log(code));`;
  const { status, signal, stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
  });
  expect({ status, signal, stdout, left: readdirSync(folder) }).toEqual({
    status: 0,
    signal: null,
    stdout: "interrupted\n",
    left: [],
  });
});

test("a file that is there is kept, and the refusal says since when it is complete", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-replaced-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "report.jsonl");
  writeFileSync(path, "kept");
  utimesSync(path, 1_700_000_000, 1_700_000_000);
  const work = () => expect.unreachable();
  await expect(replaceFile(path, { force: false }, work)).rejects.toThrow(
    `${path} already exists, complete since 2023-11-14T22:13:20.000Z: add --force to replace it`,
  );
  expect(readFileSync(path, "utf8")).toBe("kept");
});

test("what is no file is not replaced by one, such as a device", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-replaced-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  for (const path of [pipe, folder]) {
    await expect(replaceFile(path, { force: true }, () => expect.unreachable())).rejects.toThrow(
      expect.objectContaining({ exitCode: 73, message: `${path} cannot be replaced: it is no file` }),
    );
  }
  expect(statSync(pipe).isFIFO()).toBe(true);
});
