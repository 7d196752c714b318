import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");

/** For a program that a test starts: nothing of the tests' own environment, and what Node has compiled before. */
export const BARE_ENVIRONMENT = {
  PATH: process.env.PATH ?? "",
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(ROOT, "node_modules", ".cache", "gatehouse"),
};
