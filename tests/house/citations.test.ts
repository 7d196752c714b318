import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

// A reader has a clone and nothing else: no document, comment or test may send them to a file that a clone does not have.

const ROOT = resolve(import.meta.dirname, "..", "..");
/** They look for optional test vectors beside the repository, or name such citations to forbid them. */
const EXCEPTED = ["tests/support/house/corpora.ts", "tests/house/citations.test.ts"];
const TEXT = /\.(?:ts|md|sql|proto|ya?ml|sh|py|go|json|env|html|txt)$|(?:^|\/)(?:Dockerfile|\.[\w-]+)$/;
/** Texts of attacks that tests send. */
const ATTACKS = [
  "packages/token-client/token-rules.test.ts: ../../keys",
  "token-service/tokens/verify-token.db.test.ts: ../../x",
];
/** Written by programs, or data of others. */
const GENERATED = /^(?:proto\/gen|examples\/typescript-client\/generated)\/|^package-lock\.json$/;

const tracked = trackedFiles();
const texts = (tracked ?? []).filter(
  (path) => TEXT.test(path) && !GENERATED.test(path) && !EXCEPTED.includes(path),
);
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** What git tracks; undefined where there is no git, or no repository. */
function trackedFiles(): string[] | undefined {
  try {
    const listed = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8", stdio: "pipe" });
    return listed.split("\n").filter((path) => path !== "" && existsSync(join(ROOT, path)));
  } catch {
    return undefined;
  }
}

const withoutUrls = (text: string) => text.replaceAll(/\b(?:https?:\/|node_modules)\/[^\s)"'`>]+/g, "");

/** Documents that a text names: `docs/errors.md`, `errors.md`. */
function documentsIn(text: string): string[] {
  return [...withoutUrls(text).matchAll(/[\w./-]*\w\.md\b/g)].map(([name]) => name);
}

/** Relative paths that lead out of the repository from the folder of a file, as `../shared/x` in the README does. */
function pathsOutside(path: string, text: string): string[] {
  const relatives = withoutUrls(text).matchAll(/(?<![\w/%.\\])(?:\.\.\/)+[\w-]+[\w./-]*/g);
  return [...relatives].map(([name]) => name).filter((name) => leavesRoot(join(ROOT, dirname(path)), name));
}

function leavesRoot(folder: string, name: string): boolean {
  return relative(ROOT, resolve(folder, name)).startsWith("..");
}

test.skipIf(tracked === undefined)("every document that a file names is in the repository", () => {
  const documents = new Set(
    (tracked ?? []).filter((path) => path.endsWith(".md")).map((path) => basename(path)),
  );
  expect(texts.length).toBeGreaterThan(900);
  const missing = texts.flatMap((path) =>
    documentsIn(read(path))
      .filter((name) => !documents.has(basename(name)))
      .map((name) => `${path}: ${name}`),
  );
  expect(missing).toEqual([]);
});

/** Source files that the comments of a text name, as `rpc-errors.ts`. */
function sourcesInComments(text: string): string[] {
  const comments = withoutUrls(text).match(/\/\/[^\n]*|\/\*[\s\S]*?\*\//g) ?? [];
  return comments.flatMap((comment) => comment.match(/(?<![*\w.-])[a-z][\w.-]*\.ts\b/g) ?? []);
}

test.skipIf(tracked === undefined)("every source file that a comment names is in the repository", () => {
  const names = new Set((tracked ?? []).map((path) => basename(path)));
  const missing = texts
    .filter((path) => path.endsWith(".ts"))
    .flatMap((path) =>
      sourcesInComments(read(path))
        .filter((name) => !names.has(name))
        .map((name) => `${path}: ${name}`),
    );
  expect(missing).toEqual([]);
});

test.skipIf(tracked === undefined)("no path in a file leads out of the repository", () => {
  const outside = texts.flatMap((path) => pathsOutside(path, read(path)).map((name) => `${path}: ${name}`));
  expect(outside.filter((citation) => !ATTACKS.includes(citation))).toEqual([]);
});

test("what these tests look for is found", () => {
  expect(documentsIn("see `http-api.md` and [it](../shared/design/security.md#a), https://a.b/c.md")).toEqual(
    ["http-api.md", "../shared/design/security.md"],
  );
  expect(pathsOutside("docs/flows.md", "from ../../shared/corpora, not ../README.md")).toEqual([
    "../../shared/corpora",
  ]);
  expect(sourcesInComments('x("a.ts"); // see gone.ts and *-rpc.ts\n/** In b-c.test.ts. */')).toEqual([
    "gone.ts",
    "b-c.test.ts",
  ]);
  expect(pathsOutside("README.md", "`../shared/corpora/merkle`")).toEqual(["../shared/corpora/merkle"]);
});
