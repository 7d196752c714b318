import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * Test vectors of others, in a folder beside the repository. They are optional: the tests that use them are extras, and each promise
 * also has a test without them.
 */
const CORPORA = resolve(import.meta.dirname, "..", "..", "..", "..", "shared", "corpora");

/** Whether these vectors are on this machine. Without them their tests are skipped and reported as such. */
export function hasCorpus(name: string): boolean {
  return existsSync(join(CORPORA, name));
}

export function readCorpus<T>(name: string, file: string): T {
  return JSON.parse(readFileSync(join(CORPORA, name, file), "utf8")) as T;
}

export function corpusFolder(name: string): string {
  return join(CORPORA, name);
}
