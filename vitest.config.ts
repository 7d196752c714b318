import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["**/*.test.ts"],
    exclude: ["**/node_modules/**", ".gatehouse/**", ".stryker-tmp/**"],
    globalSetup: ["tests/support/postgres-global-setup.ts"],
    pool: "forks",
    maxWorkers: 2,
    // Real databases and processes on a small, noisy machine: generous, because nothing here measures time.
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
