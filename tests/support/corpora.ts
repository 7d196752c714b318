import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** Test vectors written by others, beside the project and never part of it. */
const CORPORA = resolve(import.meta.dirname, "..", "..", "..", "shared", "corpora");

/** Whether the vectors are on this machine; without them their tests are skipped, visibly. */
export function hasCorpus(name: string): boolean {
  return existsSync(join(CORPORA, name));
}

export function readCorpus<T>(name: string, file: string): T {
  return JSON.parse(readFileSync(join(CORPORA, name, file), "utf8")) as T;
}

export function corpusFolder(name: string): string {
  return join(CORPORA, name);
}
