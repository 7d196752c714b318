import { declareValuePlugin, PluginKind } from "@stryker-mutator/api/plugin";

/** The used part of Babel's nodes and paths (babeljs.io/docs/babel-types). */
interface Node {
  type: string;
  value?: unknown;
  name?: string;
  callee?: Node;
  object?: Node;
  property?: Node;
  quasis?: { value: { raw: string } }[];
  expression?: Node;
}
interface Path {
  node: Node;
  parent: Node;
  parentPath?: Path;
}

const LEVELS = new Set(["trace", "debug", "info", "warn", "error", "fatal"]);

/** `log.warn(…)`, `this.#log.warn(…)`, `deps.log.error(…)`. */
function isLogCall({ type, callee }: Node): boolean {
  if (type !== "CallExpression" && type !== "OptionalCallExpression") return false;
  const logger = callee?.object?.property ?? callee?.object;
  const name = logger?.name ?? (logger as { id?: Node } | undefined)?.id?.name ?? "";
  return /^(log|logger)$/.test(name) && LEVELS.has(callee?.property?.name ?? "");
}

/** A sentence, not a code such as `invalid_token` or the name of a header. */
function isSentence({ type, value, quasis }: Node): boolean {
  if (type === "StringLiteral") return String(value).trim().includes(" ");
  return type === "TemplateLiteral" && (quasis ?? []).some(({ value: { raw } }) => raw.trim().includes(" "));
}

function isOfError(path: Path): boolean {
  for (let at: Path | undefined = path; at !== undefined; at = at.parentPath) {
    if (at.node.type === "NewExpression") return /Error$/.test(at.node.callee?.name ?? "");
    if (/Function|Statement|Declaration/.test(at.node.type)) return false;
  }
  return false;
}

function isHelpOfMetric({ node, parent }: Path): boolean {
  if (parent.type !== "ObjectProperty") return false;
  return isSentence(node) && ((parent as unknown as { key?: Node }).key?.name ?? "") === "help";
}

/**
 * A Stryker ignorer: log messages and the sentences of errors and metrics are not mutated, since no test asserts their wording.
 * Codes and types of errors are mutated.
 */
export const strykerPlugins = [
  declareValuePlugin(PluginKind.Ignore, "texts", {
    shouldIgnore(given) {
      const path = given as Path;
      if (isLogCall(path.node)) return "a log line";
      if (isSentence(path.node) && isOfError(path)) return "the sentence of an error";
      return isHelpOfMetric(path) ? "the help of a metric" : undefined;
    },
  }),
];
