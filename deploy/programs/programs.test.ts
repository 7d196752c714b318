import { execFile } from "node:child_process";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { builtPrograms, DIST, PROGRAMS, ROOT, readPrograms, stampBefore, stampOf } from "./programs.ts";

const run = promisify(execFile);
const build = () => run(process.execPath, [join(ROOT, "deploy", "programs", "build.ts")]);

beforeAll(async () => {
  if (builtPrograms() === undefined) await build();
});

test("every service runs from its bundle, and says what its configuration lacks", async () => {
  const built = builtPrograms() ?? {};
  expect(Object.keys(built).sort()).toEqual([...PROGRAMS].sort());
  for (const service of ["gateway", "identity-service", "token-service", "audit-service", "event-service"]) {
    const program = built[`${service}/main.ts`] ?? "";
    const failure = await run(process.execPath, [program, "--check-config"], { env: {} }).catch(
      (error) => error,
    );
    expect({ service, code: failure.code, said: failure.stderr }).toEqual({
      service,
      code: 78,
      said: expect.stringContaining("LISTEN_ADDRESS: is required"),
    });
  }
});

test("a build is not used after a change of a source, without one of its files, or in another folder", () => {
  const programs = readPrograms();
  if (programs === undefined) throw new Error("there is no build");
  const { sources, files } = programs;
  expect(Object.keys(sources)).toEqual(
    expect.arrayContaining(["gateway/app.ts", "packages/service-kit/telemetry/logger.ts", "package.json"]),
  );
  expect(builtPrograms(programs)).toBeDefined();
  const changed = [
    { ...programs, sources: { ...sources, "gateway/app.ts": "1 2" } },
    { ...programs, sources: { ...sources, "gateway/removed.ts": "1 2" } },
    { ...programs, files: [...files, "removed.mjs"] },
    { ...programs, root: "/elsewhere" },
  ];
  expect(changed.map((each) => builtPrograms(each))).toEqual(changed.map(() => undefined));
});

test("a source that changes during the build counts as changed", () => {
  const { mtimeMs } = statSync(join(ROOT, "package.json"));
  expect(stampBefore(mtimeMs + 1, "package.json")).toBe(stampOf("package.json"));
  expect(stampBefore(mtimeMs, "package.json")).toBe("changed");
});

test("a build keeps the files of the one before, which may still be loaded, and the drafts of others", async () => {
  const before = readPrograms()?.files ?? [];
  const names = ["older.mjs", "older.mjs.map", "other.mjs.1"].map((name) => join(DIST, name));
  for (const name of names) writeFileSync(name, "");
  onTestFinished(() => {
    for (const name of names) rmSync(name, { force: true });
  });
  await build();
  for (const file of before) statSync(join(DIST, file));
  expect(names.map((name) => statSync(name, { throwIfNoEntry: false })?.size)).toEqual([
    undefined,
    undefined,
    0,
  ]);
});
