import { defineConfig } from "vitest/config";
import { isLostTypeQuery } from "./service-kit/database-failure.ts";

export default defineConfig({
  test: {
    include: ["**/*.test.ts"],
    exclude: ["**/node_modules/**", ".gatehouse/**", ".stryker-tmp/**"],
    globalSetup: ["tests/support/postgres-global-setup.ts"],
    tags: [
      {
        name: "exhaustive",
        description: "Thousands of cases or seconds of waiting: left out by `npm run mutate`.",
      },
    ],
    pool: "forks",
    maxWorkers: 2,
    // Of the tests of a file that are marked as concurrent: they wait.
    maxConcurrency: 10,
    // Real databases and processes on a small, noisy machine: generous, because nothing here measures time.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Generous: the speed of the machine must not decide.
    expect: { poll: { timeout: 20_000 } },
    // As in every process of Gatehouse; false ignores the error.
    onUnhandledError: (error) => !isLostTypeQuery(error),
  },
});
