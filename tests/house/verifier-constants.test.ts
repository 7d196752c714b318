import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..", "..");
const JAVA = "clients/java/src/main/java/example/gatehouse/tokenclient";
const PYTHON = "clients/python/src/gatehouse_token_client";

test.each<[string, number, [string, RegExp][]]>([
  [
    "retry budget (gRFC A6)",
    200,
    [
      ["clients/go/transport.go", /"maxTokens": (\d+)/],
      [`${PYTHON}/verifier.py`, /"maxTokens": (\d+)/],
      [`${JAVA}/TokenServiceVerifier.java`, /"maxTokens", (\d+)/],
    ],
  ],
  [
    "longest token in characters",
    4096,
    [
      ["packages/token-client/compact-jws.ts", /MAX_TOKEN_CHARACTERS = ([\d_]+)/],
      ["clients/go/rules.go", /maxTokenBytes\s+= (\d+)/],
      [`${PYTHON}/_rules.py`, /MAX_TOKEN_CHARACTERS: Final = (\d+)/],
      [`${JAVA}/TokenRules.java`, /MAX_TOKEN_CHARACTERS = (\d+)/],
    ],
  ],
  [
    "clock skew in seconds",
    5,
    [
      ["packages/token-client/assurance.ts", /CLOCK_SKEW_S = (\d+)/],
      ["clients/go/memory.go", /clockSkew = (\d+) \* time\.Second/],
      ["clients/go/gatehousetest/testing.go", /clockSkew\s+= (\d+) \* time\.Second/],
      [`${PYTHON}/principal.py`, /CLOCK_SKEW_S: Final = (\d+)/],
      [`${JAVA}/AssuranceDemand.java`, /CLOCK_SKEW = Duration\.ofSeconds\((\d+)\)/],
    ],
  ],
  [
    "silence in seconds after which memory is not trusted",
    3,
    [
      ["clients/go/revocations.go", /staleAfter = (\d+) \* time\.Second/],
      [`${PYTHON}/_revocations.py`, /STALE_AFTER_S: Final = (\d+)/],
      [`${JAVA}/Revocations.java`, /STALE_AFTER_S = (\d+)/],
    ],
  ],
])("the %s is the same in every language: %i", (_what, expected, places) => {
  for (const [file, pattern] of places) {
    const found = pattern.exec(readFileSync(join(ROOT, file), "utf8"))?.[1];
    expect(Number(found?.replace("_", "")), file).toBe(expected);
  }
});

test.each([
  ["packages/token-client/revocation-watch.ts", /STALE_AFTER_MS = 3_000;/],
  ["token-service/revocations/revocation-feed.ts", /STALE_AFTER_MS = 3_000;/],
  ["packages/service-kit/rpc/rpc-client.ts", /MAX_RETRIES = 100;[\s\S]*maxTokens: 2 \* MAX_RETRIES/],
])("%s has the same, in its own unit", (file, pattern) => {
  expect(readFileSync(join(ROOT, file), "utf8")).toMatch(pattern);
});

test.each([
  ["python/pyproject.toml", /^version = "(.+?)"/m],
  ["java/pom.xml", /<artifactId>token-client<\/artifactId>\s*<version>(.+?)<\/version>/],
  ["java/README.md", /<artifactId>token-client<\/artifactId>\s*<version>(.+?)<\/version>/],
])("%s has the version of package.json", (file, pattern) => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  expect(pattern.exec(readFileSync(join(ROOT, "clients", file), "utf8"))?.[1]).toBe(version);
});
