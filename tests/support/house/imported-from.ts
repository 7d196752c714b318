import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const IMPORT_MAP: Record<string, string> = JSON.parse(
  readFileSync(join(ROOT, "package.json"), "utf8"),
).imports;

/** @param path from the root. @returns our own files as paths from the root, and packages by their names. */
export function importedFrom(path: string, specifier: string): string {
  if (specifier.startsWith(".")) return relative(ROOT, resolve(ROOT, dirname(path), specifier));
  const [alias = "", ...rest] = specifier.split("/");
  const target = IMPORT_MAP[`${alias}/*.ts`];
  return target === undefined ? specifier : join(target.replace("*.ts", ""), ...rest);
}
