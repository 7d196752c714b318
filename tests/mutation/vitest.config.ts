import { defineConfig, mergeConfig } from "vitest/config";
import base from "../../vitest.config.ts";

/** The tests of one module only: `mutate.ts` says which. */
const include = (process.env.MUTATION_TESTS ?? "").split(",").filter((pattern) => pattern !== "");
const merged = mergeConfig(base, defineConfig({}));

export default { ...merged, test: { ...merged.test, include, tagsFilter: ["!exhaustive"] } };
