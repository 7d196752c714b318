import { expect, test } from "vitest";
import { buildClient } from "./build.ts";

test("the library with its dependency is one file of at most 6 kB, and keeps nothing in storage", async () => {
  const { code, gzippedBytes } = await buildClient();
  expect(gzippedBytes).toBeLessThanOrEqual(6 * 1024);
  for (const name of ["createClient", "GatehouseError"]) expect(code).toContain(name);
  expect(code).not.toMatch(/localStorage|sessionStorage|indexedDB|document\.cookie|\bimport\b/);
});
