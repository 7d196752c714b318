import { basename, join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { isLostTypeQuery } from "#kit/database/database-failure.ts";

// For the workers, and for the processes that they start.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "node_modules", ".cache", "gatehouse");

const ELSEWHERE = ["**/node_modules/**", ".gatehouse/**", ".stryker-tmp/**"];
/** Against whole systems: each start takes ten seconds of CPU time. */
const FLOWS = "tests/flows/**/*.flow.test.ts";
/** By name: `npm run trial`. */
const TRIALS = "trials/**/*.trial.test.ts";

/** No worker is left alone with a long file at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) =>
      ["accounts", "npm-start", "portal", "pages"].indexOf(basename(moduleId, ".flow.test.ts"));
    return (await super.sort(files)).toSorted((one, other) => rank(other) - rank(one));
  }
}

export default defineConfig({
  test: {
    // `npm test` and `npm run test:flows`.
    projects: [
      {
        extends: true,
        test: { name: "tests", include: ["**/*.test.ts"], exclude: [...ELSEWHERE, FLOWS, TRIALS] },
      },
      // Systems of seven processes need both cores: after the tests.
      {
        extends: true,
        test: { name: "flows", include: [FLOWS], maxWorkers: 3, sequence: { groupOrder: 1 } },
      },
      { extends: true, test: { name: "trials", include: [TRIALS] } },
    ],
    globalSetup: [
      "tests/support/browser/pages-global-setup.ts",
      "tests/support/database/postgres-global-setup.ts",
    ],
    tags: [
      {
        name: "exhaustive",
        description:
          "Thousands of cases, large data, or seconds of waiting: `npm run trial -- exhaustive`, of flows `-- flows`.",
      },
    ],
    pool: "forks",
    // Tests wait for much of their time: those of another worker use it.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
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
