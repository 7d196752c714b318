import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Command } from "./command.ts";
import { lostOutput } from "./lost-output.ts";
import { run } from "./run.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const SCRIPT = ["completion", "bash"];

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-output-"));
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** @param redirection of bash, behind the command. @param before of bash, before it. */
function printed(redirection: string, before = ":") {
  const command = `${before}; exec "${process.execPath}" "${MAIN}" ${SCRIPT.join(" ")} ${redirection}`;
  const { status, stderr } = spawnSync("bash", ["-c", command], { encoding: "utf8" });
  return { status, stderr };
}

test.skipIf(process.platform !== "linux")("output that a full disk does not take is a failure", () => {
  expect(printed("> /dev/full")).toEqual({
    status: 73,
    stderr: expect.stringMatching(/^gatehouse: Standard output cannot be written: ENOSPC.*\n$/),
  });
});

test("output of which a disk takes a part is a failure", () => {
  const output = join(folder, "part");
  // The limit of a file's size has the system write a part first, as a disk that is almost full does.
  expect(printed(`> "${output}"`, "trap '' XFSZ; ulimit -f 1")).toEqual({
    status: 73,
    stderr: expect.stringMatching(/^gatehouse: Standard output cannot be written: EFBIG.*\n$/),
  });
  expect(statSync(output).size).toBeGreaterThan(0);
});

test("a reader that has left is no failure of the help", async () => {
  const child = spawn(process.execPath, [MAIN, "help"], { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  let error = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    error += text;
  });
  expect(await once(child, "close")).toEqual([0, null]);
  expect(error).toBe("");
});

test("JSON has no character that would control a terminal, and says the same", async () => {
  const json = { name: "a\u009b2J\u202e\u007f\u{e0001}é😀\n", list: [1, null] };
  const saying: Command = {
    name: "say",
    summary: "Say",
    positionals: [],
    options: {},
    run: async () => ({ text: "", json }),
  };
  let out = "";
  const writeOut = (text: string) => {
    out += text;
  };
  const context = { environment: {}, defaultHome: folder, writeOut, writeError: () => {} };
  expect(await run(["say", "--json"], [saying], context)).toBe(0);
  expect(JSON.parse(out)).toEqual(json);
  expect(out.split("\n").filter((line) => /\p{C}/u.test(line))).toEqual([]);
});

test("a reader that has left does not change a command's exit code", async () => {
  const refusing: Command = {
    name: "refuse",
    summary: "Refuse",
    positionals: [],
    options: {},
    run: async () => ({ text: "REFUSED", json: {}, exitCode: 65 }),
  };
  const code = await run(["refuse"], [refusing], {
    environment: {},
    defaultHome: folder,
    writeOut: async () => {
      throw lostOutput(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
    },
    writeError: () => {},
  });
  expect(code).toBe(65);
});
