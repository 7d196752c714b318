/** Which methods the paths of this gateway have: for 405 and `Allow`. */
export interface KnownPaths {
  add(pattern: string, methods: readonly string[]): void;
  /** The methods of a path, sorted, as for `Allow`; empty if there is no such path. */
  methodsOf(path: string): string[];
  /** Whether a pattern without `:name` or `*` is this path. */
  isLiteral(path: string): boolean;
}

/** Patterns as in the routes: segments, `:name` for any one segment, a last `*` for the rest. */
export function createKnownPaths(): KnownPaths {
  const patterns: { segments: string[]; methods: readonly string[] }[] = [];
  const literal = (path: string) => patterns.filter(({ segments }) => segments.join("/") === decoded(path));
  return {
    add: (pattern, methods) => void patterns.push({ segments: pattern.split("/"), methods }),
    isLiteral: (path) => literal(path).length > 0,
    methodsOf(path) {
      const segments = decoded(path).split("/");
      const exact = literal(path);
      // A path of its own is not what a pattern stands for that it happens to fit into: `/auth/login` is no provider.
      const matching =
        exact.length > 0 ? exact : patterns.filter((pattern) => matches(pattern.segments, segments));
      return [...new Set(matching.flatMap(({ methods }) => methods))].sort();
    },
  };
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  const hasRest = pattern.at(-1) === "*";
  if (hasRest ? segments.length < pattern.length : segments.length !== pattern.length) return false;
  return pattern.every(
    (expected, index) =>
      expected === "*" ||
      expected === segments[index] ||
      (expected.startsWith(":") && segments[index] !== ""),
  );
}

/** As the router sees the path. Broken escapes do not get here: the guard refuses them. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
