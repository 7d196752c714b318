import { defineConfig, mergeConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import base from "../../vitest.config.ts";

/** The tests of one module only: `mutate.ts` says which. */
const include = (process.env.MUTATION_TESTS ?? "").split(",").filter((pattern) => pattern !== "");
const merged = mergeConfig(base, defineConfig({}));

/** The first failure ends the run of a change, so the fast files come first: a database is made only if they notice nothing. */
class FastFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const hasDatabase = ({ moduleId }: TestSpecification) => Number(moduleId.endsWith(".db.test.ts"));
    return files.toSorted((one, other) => hasDatabase(one) - hasDatabase(other));
  }
}

/** The test files of one change share a worker: what they import is loaded once. The next change has a new one. */
const isolate = false;

export default {
  ...merged,
  test: {
    ...merged.test,
    include,
    isolate,
    sequence: { sequencer: FastFirst },
    // A change is often noticed by waiting in vain.
    testTimeout: 10_000,
    expect: { poll: { timeout: 4_000 } },
    tagsFilter: ["!exhaustive"],
  },
};
