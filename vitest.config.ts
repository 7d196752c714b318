import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { isLostTypeQuery } from "./service-kit/database-failure.ts";

// For the workers, and for the processes that they start.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "node_modules", ".cache", "gatehouse");

/** The flows first: they take longest, and a worker that is left alone with one wastes the other cores. */
class FlowsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isFlow = ({ moduleId }: TestSpecification) => moduleId.endsWith(".flow.test.ts");
    return [...sorted.filter(isFlow), ...sorted.filter((file) => !isFlow(file))];
  }
}

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
    sequence: { sequencer: FlowsFirst },
    // The flows wait for most of their time: the tests of another worker use it.
    maxWorkers: 3,
    // Modules are loaded and optimised once in a worker. A test file leaves nothing behind that another could see.
    isolate: false,
    // Of the tests of a file that are marked as concurrent: they wait.
    maxConcurrency: 10,
    // Real databases and processes on a small, noisy machine: generous, because nothing here measures time.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    // As in every process of Gatehouse; false ignores the error.
    onUnhandledError: (error) => !isLostTypeQuery(error),
  },
});
