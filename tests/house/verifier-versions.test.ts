import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..", "..");
const text = (...path: string[]) => readFileSync(join(ROOT, ...path), "utf8");

test.each([
  ["python/pyproject.toml", /^version = "(.+?)"/m],
  ["java/pom.xml", /<artifactId>token-client<\/artifactId>\s*<version>(.+?)<\/version>/],
  ["java/README.md", /<artifactId>token-client<\/artifactId>\s*<version>(.+?)<\/version>/],
])("%s has the version of package.json", (file, pattern) => {
  const { version } = JSON.parse(text("package.json"));
  expect(pattern.exec(text("clients", file))?.[1]).toBe(version);
});
