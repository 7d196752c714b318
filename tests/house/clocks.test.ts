import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..", "..");
const DECISION = "docs/decisions/clocks.md";
const TS_FOLDERS =
  "{audit-service,cli,event-service,gateway,identity-service,packages,token-service,clients/node}";
const NO_PRODUCTION_CODE =
  /\.(?:test|fixture|contract)\.ts$|_test\.go$|\/testing[./]|node_modules|\/internal\/|conformance-driver/;

/** Sources by language, and how they read the wall clock. */
const LANGUAGES: readonly [string, RegExp][] = [
  [`${TS_FOLDERS}/**/*.ts`, /\bDate\.now\b|\bnew Date\(\)/],
  ["clients/go/**/*.go", /\btime\.Now\b/],
  ["clients/python/src/**/*.py", /\btime\.time(?:_ns)?\b|\bdatetime\.(?:now|utcnow|today)\b/],
  [
    "clients/java/src/main/**/*.java",
    /\bInstant\.now\b|\bSystem\.currentTimeMillis\b|\bnew Date\(\)|\b(?:Local|Offset|Zoned)DateTime\.now\b/,
  ],
];

test("every file that reads the wall clock, of any language, is in the table of the decision on clocks, which says what the time decides", () => {
  const files = LANGUAGES.flatMap(([sources, wallClock]) =>
    globSync(sources, { cwd: ROOT }).filter(
      (path) =>
        !NO_PRODUCTION_CODE.test(path) &&
        readFileSync(join(ROOT, path), "utf8")
          .split("\n")
          .some((line) => wallClock.test(line) && !/^\s*(?:\/\/|\/?\*|#)/.test(line)),
    ),
  );
  const [, table = ""] = readFileSync(join(ROOT, DECISION), "utf8").split("## Who reads the wall clock");
  const named = [...table.matchAll(/`([a-z-]+\/[\w/-]+\.(?:ts|go|py|java))`/g)].map(([, path]) => path);
  expect(files.length).toBeGreaterThan(25);
  expect(named.sort()).toEqual(files.sort());
});

test("identity-service and token-service ask whether their clock is right before a call, and limits in memory never go by it", () => {
  const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
  const main = read("identity-service/main.ts");
  const parts = read("identity-service/process/open-parts.ts");
  expect(main).toMatch(/service\.serveRpc\(config, \{[^}]*\bassertClock: database\.assertClock\b/);
  expect(main).toMatch(/createClientLimits\(steadyNow\)/);
  expect(parts).toMatch(/new MemoryThrottle\(\{[^}]*now: steadyNow \}\)/);
  expect(parts).toMatch(/localNow: steadyNow/);
  expect(read("token-service/main.ts")).toMatch(/^ {2}assertClock: first\.assertClock,$/m);
});
