import { defineConfig, mergeConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import base from "../../vitest.config.ts";

/** The tests of one module only: `mutate.ts` says which. */
const include = (process.env.MUTATION_TESTS ?? "").split(",").filter((pattern) => pattern !== "");
const merged = mergeConfig(base, defineConfig({}));

/** A mutant's run ends with its first failure, so fast files run first: a database is only created if those pass. */
class FastFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const hasDatabase = ({ moduleId }: TestSpecification) => Number(moduleId.endsWith(".db.test.ts"));
    return files.toSorted((one, other) => hasDatabase(one) - hasDatabase(other));
  }
}

export default {
  ...merged,
  test: {
    ...merged.test,
    projects: undefined,
    include,
    sequence: { sequencer: FastFirst },
    // Many mutants are killed by a time-out.
    testTimeout: 10_000,
    hookTimeout: 10_000,
    expect: { poll: { timeout: 4_000 } },
    tagsFilter: ["!exhaustive"],
  },
};
