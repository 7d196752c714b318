import { defineConfig, mergeConfig } from "vitest/config";
import base from "../../vitest.config.ts";

/** The tests of one module only: `mutate.ts` says which. */
const include = (process.env.MUTATION_TESTS ?? "").split(",").filter((pattern) => pattern !== "");
const merged = mergeConfig(base, defineConfig({}));

/** The test files of one change share a worker: what they import is loaded once. The next change has a new one. */
const isolate = false;

export default { ...merged, test: { ...merged.test, include, isolate, tagsFilter: ["!exhaustive"] } };
