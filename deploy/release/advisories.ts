import { ReleaseError, run } from "./run.ts";

interface Report {
  vulnerabilities?: Record<string, { severity: string; via: (string | { title: string; url: string })[] }>;
}

/**
 * Asks the registry of npm what is known of the packages that a release installs.
 * @returns a sentence for who makes the release.
 * @throws {ReleaseError} with each package of which something high or critical is known, or which depends on one.
 */
export async function refuseAdvisories(registry: readonly string[] = []): Promise<string> {
  // Its exit code is 1 for a weakness as for a registry that has no advisories, as mirrors often have none.
  const command = 'npm audit --omit=dev --json "$@" 2>/dev/null || true';
  const text = await run("sh", ["-c", command, "npm audit", ...registry]);
  const { vulnerabilities }: Report = text.trim() === "" ? {} : JSON.parse(text);
  if (vulnerabilities === undefined)
    return "The registry answers no advisories: run `npm audit --omit=dev` where one does.";
  const found = Object.entries(vulnerabilities);
  const grave = found.filter(([, { severity }]) => severity === "high" || severity === "critical");
  const lines = grave.map(([name, { severity, via }]) => {
    const causes = via.map((cause) =>
      typeof cause === "string" ? `by ${cause}` : `${cause.title}: ${cause.url}`,
    );
    return `  ${name}: ${severity}: ${causes.join("; ")}`;
  });
  if (grave.length > 0) throw new ReleaseError(`Known weaknesses of packages:\n${lines.join("\n")}`);
  return `No grave weakness is known of the packages (${found.length} of a lower level).`;
}
