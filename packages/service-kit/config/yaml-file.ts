import { readFileSync } from "node:fs";
import { type Document, isMap, isScalar, LineCounter, type Node, parseDocument } from "yaml";
import { z } from "zod";
import { ConfigError } from "./config.ts";

/** @throws {ConfigError} naming each problem with line and key, never a value. */
export function parseYamlFile<S extends z.ZodType>(text: string, schema: S, name: string): z.output<S> {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const lineAt = (offset: number) => lineCounter.linePos(offset).line;
  if (document.errors.length > 0) {
    throw fileError(
      name,
      document.errors.map((error) => `line ${lineAt(error.pos[0])}: ${error.message}`),
    );
  }
  const result = schema.safeParse(plainValue(document, name), { reportInput: true });
  if (result.success) return result.data;
  throw fileError(
    name,
    result.error.issues
      .flatMap(problemsOf)
      .map(({ path, message }) => ({ line: lineAt(offsetOf(document.contents, path)), path, message }))
      .sort((a, b) => a.line - b.line)
      .map(({ line, path, message }) => `line ${line}, ${path.join(".") || "(all)"}: ${message}`),
  );
}

function plainValue(document: Document, name: string): unknown {
  try {
    return document.toJS();
  } catch (cause) {
    throw fileError(name, [cause instanceof Error ? cause.message : "cannot be read"]);
  }
}

function fileError(name: string, lines: string[]): ConfigError {
  return new ConfigError(`${name} cannot be used:\n${lines.map((line) => `    ${line}`).join("\n")}`);
}

/** For a variable that names a readable file. @param parse its {@link ConfigError} becomes the variable's problem. */
export function parsedFile<T>(parse: (text: string, path: string) => T) {
  return (path: string, context: z.RefinementCtx): T => {
    const text = readFileSync(path, "utf8");
    try {
      return parse(text, path);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      context.addIssue({ code: "custom", message: error.message });
      return z.NEVER;
    }
  };
}

type Path = readonly PropertyKey[];

function problemsOf(issue: z.core.$ZodIssue): { path: Path; message: string }[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ path: [...issue.path, key], message: "is not known" }));
  }
  const isMissing = issue.input === undefined && issue.code !== "custom";
  return [{ path: issue.path, message: isMissing ? "is required" : issue.message }];
}

function offsetOf(contents: Node | null, path: Path): number {
  let node = contents;
  let offset = node?.range?.[0] ?? 0;
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && item.key.value === key);
      if (pair === undefined) break;
      offset = (pair.key as Node).range?.[0] ?? offset;
      node = pair.value as Node | null;
    } else {
      const item: unknown = (node as { items?: unknown[] } | null)?.items?.[Number(key)];
      if (item === undefined) break;
      node = item as Node;
      offset = node.range?.[0] ?? offset;
    }
  }
  return offset;
}
