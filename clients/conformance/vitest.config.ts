import { resolve } from "node:path";
import { defineConfig } from "vitest/config";
import type { DriverCase } from "./drivers.ts";

/** Of `run.ts`, which builds the drivers. */
const cases: DriverCase[] = JSON.parse(process.env.CONFORMANCE_CASES ?? "[]");

export default defineConfig({
  cacheDir: resolve(import.meta.dirname, "..", "..", "node_modules", ".vite"),
  test: {
    root: resolve(import.meta.dirname),
    projects: cases.map((driverCase) => ({
      extends: true,
      test: { name: `${driverCase.name}, by ${driverCase.door}`, provide: { driverCase } },
    })),
    // All at once: the rules wait for most of their time.
    maxWorkers: cases.length,
    include: ["*.conformance.ts"],
    // As in the tests of the repository: nothing here measures the machine.
    testTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
