import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { readOwnRoutes } from "#access-file/own-routes.ts";
import { ownRoutesFiles } from "../support/house/own-routes-files.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");

test("the list of own routes and the table of routes and roles are those of the code (npm run generate:api)", async () => {
  for (const [file, text] of Object.entries(await ownRoutesFiles()))
    expect(readFileSync(join(ROOT, file), "utf8"), file).toBe(text);
});

test("every route of administration demands a permission", () => {
  const administration = readOwnRoutes().filter(({ path }) => path.startsWith("/admin/"));
  expect(administration.length).toBeGreaterThan(12);
  expect(administration.filter(({ permissions = [] }) => permissions.length === 0)).toEqual([]);
});
