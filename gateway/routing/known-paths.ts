import type { RoutePolicy } from "./route-policy.ts";

export interface KnownPaths {
  add(pattern: string, methods: readonly string[], cookies?: RoutePolicy["cookies"]): void;
  /** Sorted. Empty for an unknown path. */
  methodsOf(path: string): string[];
  isLiteral(path: string): boolean;
  /** Those of any of its methods. */
  cookiesOf(path: string): RoutePolicy["cookies"];
}

/** Patterns have segments, `:name` for one segment, and a final `*` for the rest. */
export function createKnownPaths(): KnownPaths {
  const patterns: { segments: string[]; methods: readonly string[]; cookies: RoutePolicy["cookies"] }[] = [];
  const literal = (path: string) => patterns.filter(({ segments }) => segments.join("/") === decoded(path));
  return {
    add: (pattern, methods, cookies) =>
      void patterns.push({ segments: pattern.split("/"), methods, cookies }),
    cookiesOf: (path) => literal(path).find(({ cookies }) => cookies !== undefined)?.cookies,
    isLiteral: (path) => literal(path).length > 0,
    methodsOf(path) {
      const segments = decoded(path).split("/");
      const exact = literal(path);
      // A literal path takes precedence: `/auth/login` is not a provider.
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

/** As the router does. The guard refuses broken escapes. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
