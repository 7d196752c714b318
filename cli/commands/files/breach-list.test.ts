import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openBreachList } from "#breach-list/open-breach-list.ts";
import { hashLines, sha1 } from "#breach-list/test-list.fixture.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const MAIN = resolve(import.meta.dirname, "..", "..", "main.ts");

let folder: string;
let hashes: string;
let list: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-breach-list-"));
  hashes = join(folder, "hashes.txt");
  list = join(folder, "breached.list");
  writeFileSync(hashes, hashLines(["letmein", "qwerty"]));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function gatehouse(...argv: string[]) {
  const printed: Record<"out" | "error", string[]> = { out: [], error: [] };
  const code = await run(["breach-list", ...argv], COMMANDS, {
    environment: {},
    defaultHome: folder,
    writeOut: (line) => void printed.out.push(line),
    writeError: (line) => void printed.error.push(line),
  });
  return { code, out: printed.out.join(""), error: printed.error.join("") };
}

const build = (...argv: string[]) => gatehouse("build", hashes, "--output", list, ...argv);

async function contains(password: string): Promise<boolean> {
  const opened = await openBreachList(list);
  const found = await opened.contains(sha1(password));
  await opened.close();
  return found;
}

test("a list is built, readable for the service, and checked", async () => {
  const built = await build("--label", "our own, 2031");
  expect([built.code, built.out]).toEqual([
    0,
    expect.stringMatching(/: 2 hashes, built .*, from our own, 2031/),
  ]);
  expect(statSync(list).mode & 0o777).toBe(0o644);
  expect(readdirSync(folder).sort()).toEqual(["breached.list", "hashes.txt"]);
  expect([await contains("letmein"), await contains("letmeout")]).toEqual([true, false]);

  const { code, out } = await gatehouse("check", list, "--json");
  const sha256 = expect.stringMatching(/^[\da-f]{64}$/);
  expect([code, JSON.parse(out)]).toEqual([
    0,
    { path: list, entries: 2, builtAt: expect.any(String), label: "our own, 2031", sha256 },
  ]);
});

test("the label is the file's name by default, and rare hashes can be left out", async () => {
  writeFileSync(hashes, hashLines(["letmein"]) + hashLines(["qwerty"]).replace(":7", ":6"));
  const { out } = await build("--min-count", "7");
  expect(out).toContain("1 hashes");
  expect(out).toContain("from hashes.txt");
  expect([await contains("letmein"), await contains("qwerty")]).toEqual([true, false]);
});

test("an existing list is replaced on demand only", async () => {
  await build();
  writeFileSync(hashes, hashLines(["another"]));
  expect(await build()).toMatchObject({ code: 73, error: expect.stringContaining("add --force") });
  expect(await contains("another")).toBe(false);
  expect((await build("--force")).code).toBe(0);
  expect(await contains("another")).toBe(true);
});

test.each([
  [
    "an NTLM list",
    () => writeFileSync(hashes, "31D6CFE0D16AE931B73C59D7E0C089C0:5\n"),
    "line 1 is refused: 32 digits",
  ],
  ["an empty file", () => writeFileSync(hashes, ""), "the file has no hashes"],
  ["no file", () => rmSync(hashes), "it cannot be read (ENOENT)"],
])("%s is refused by its name, and the former list stays", async (_, spoil, reason) => {
  await build();
  const before = readFileSync(list);
  spoil();
  const { code, error } = await build("--force");
  expect([code, error]).toEqual([66, expect.stringContaining(`${hashes}: ${reason}`)]);
  expect(readFileSync(list).equals(before)).toBe(true);
  expect(readdirSync(folder).filter((name) => name.startsWith("."))).toEqual([]);
});

test("a folder that cannot be written to is reported", async () => {
  const { code, error } = await gatehouse("build", hashes, "--output", join(folder, "absent", "list"));
  expect([code, error]).toEqual([73, expect.stringContaining("cannot be written")]);
});

test("check refuses what is no list, by name", async () => {
  const { code, error } = await gatehouse("check", hashes);
  expect([code, error]).toEqual([
    66,
    expect.stringContaining(`${hashes} cannot be used: it is a list of hashes`),
  ]);
  expect((await gatehouse("check", list)).error).toContain(`${list} cannot be read (ENOENT)`);
});

/** A build whose input has not ended yet. */
async function startBuild() {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const argv = ["breach-list", "build", pipe, "--output", list, "--force"];
  const child = spawn(process.execPath, [MAIN, ...argv], { stdio: ["ignore", "ignore", "pipe"] });
  const input = await open(pipe, "w");
  await input.write(hashLines(Array.from({ length: 1_000 }, (_, index) => `${index}`)));
  await expect.poll(() => readdirSync(folder).filter((name) => name.endsWith(".partial"))).toHaveLength(1);
  return { child, input };
}

test("a build that is killed leaves the former list", async () => {
  await build();
  const before = readFileSync(list);
  const { child, input } = await startBuild();
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  expect(await ended).toEqual([null, "SIGKILL"]);
  await input.close();
  expect(readFileSync(list).equals(before)).toBe(true);
  expect(await contains("letmein")).toBe(true);
});

test("a build that is interrupted leaves the former list and nothing else", async () => {
  await build();
  const before = readFileSync(list);
  const { child, input } = await startBuild();
  const [ended, said] = [once(child, "exit"), text(child.stderr)];
  child.kill("SIGTERM");
  await input.write(hashLines(["the end"]));
  await input.close();
  expect([await ended, await said]).toEqual([[1, null], expect.stringContaining("Interrupted")]);
  expect(readFileSync(list).equals(before)).toBe(true);
  expect(readdirSync(folder).sort()).toEqual(["breached.list", "hashes.txt", "pipe"]);
});
