import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..", "..");
const DECISION = "docs/decisions/0042-clocks.md";
const FOLDERS =
  "{access-file,audit-client,audit-service,breach-list,gateway,identity-service,rate-limit,service-kit,token-client,token-service}";
const WALL_CLOCK = /\bDate\.now\b|new Date\(\)/;

test("every file that reads the wall clock is in the table of decision 0042, which says what the time decides", () => {
  const files = globSync(`${FOLDERS}/**/*.ts`, { cwd: ROOT }).filter(
    (path) =>
      !/\.(?:test|fixture|contract)\.ts$|\/testing\/|node_modules/.test(path) &&
      readFileSync(join(ROOT, path), "utf8")
        .split("\n")
        .some((line) => WALL_CLOCK.test(line) && !/^\s*(?:\/\/|\/?\*)/.test(line)),
  );
  const [, table = ""] = readFileSync(join(ROOT, DECISION), "utf8").split("## Who reads the wall clock");
  const named = [...table.matchAll(/`([a-z-]+\/[a-z/-]+\.ts)`/g)].map(([, path]) => path);
  expect(files.length).toBeGreaterThan(15);
  expect(named.sort()).toEqual(files.sort());
});
