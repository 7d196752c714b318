import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { REDIRECTED_CODES } from "#gateway/auth/oauth-routes.ts";
import { HTTP_STATUS, INTERNAL_ONLY } from "#gateway/edge/answers/http-errors.ts";
import { oauthErrorOf } from "#gateway/edge/answers/oauth-failure.ts";
import { answeringGateway } from "#gateway/testing/answering-gateway.ts";
import { REDIRECTED } from "#identity-service/oauth/complete-oauth-login.ts";
import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import { DomainError, ERROR_CATALOGUE, type ErrorCode } from "#kit/values/errors.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const page = read("docs/errors.md");
const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+) \| (\w+) \| (.+) \|$/gm)].map(
  ([, code, http, rpc, text]) => ({
    code,
    http: Number(http),
    rpc,
    text,
  }),
);

test("docs/errors.md lists every code once, with its statuses and its sentence", () => {
  const catalogue = (Object.keys(ERROR_CATALOGUE) as ErrorCode[]).map((code) => ({
    code,
    http: HTTP_STATUS[code],
    rpc: status[toRpcError(new DomainError(code)).code ?? -1],
    text: ERROR_CATALOGUE[code],
  }));
  expect(rows).toEqual(catalogue);
});

/**
 * What no route of ours answers as a status: what only a redirect reports, another method, an upstream API or a demand of the
 * routes file; and `conflict` waits for its first route.
 */
const OUTSIDE_OF_ROUTES = [
  "oauth_failed",
  "oauth_denied",
  "approval_required",
  "method_not_allowed",
  "link_required",
  "upstream_unavailable",
  "upstream_timeout",
];

test("the document names the failures that the end of a login at a provider reports by its redirect", async () => {
  expect([...REDIRECTED].sort()).toEqual([...REDIRECTED_CODES].sort());
  const { paths } = await answeringGateway().document();
  const callback = paths["/auth/{provider}/callback"]?.get;
  for (const code of REDIRECTED) expect(callback?.description).toContain(`\`${code}\``);
});

test("the OpenAPI document has every code that a client can see, with the page's statuses and sentences", async () => {
  const { components, paths, info, ...document } = await answeringGateway().document();
  const visible = rows.filter(({ code }) => !INTERNAL_ONLY.has(code as ErrorCode));
  expect(components.schemas.ErrorCode?.enum).toEqual(visible.map(({ code }) => code));
  const sentences = visible.map(({ code, http, text }) => `- \`${code}\` (${http}): ${text}`);
  expect(components.schemas.ErrorCode?.description).toContain(sentences.join("\n"));

  const answered = new Set<string>();
  const ofOperations = Object.values(paths).flatMap((methods) =>
    Object.values(methods).map(({ responses }) => responses),
  );
  for (const responses of [...ofOperations, document["x-failures-of-any-request"]]) {
    for (const [status, response] of Object.entries(responses)) {
      const name =
        "$ref" in response ? String(response.$ref).replace("#/components/responses/", "") : undefined;
      // Redirections are shared, too.
      if (name === undefined || Number(status) < 400) continue;
      const described = components.responses[name] as {
        description: string;
        content: { "application/json": { schema: { $ref?: string } } };
        "x-error-codes": string[];
      };
      const codes = [...described.description.matchAll(/^- `(\w+)` \((\d+)\)/gm)];
      const { $ref } = described.content["application/json"].schema;
      // Those of RFC 8935 have names of their own.
      if ($ref === undefined) continue;
      const sent = codes.map(([, code]) =>
        $ref.endsWith("/Failure") ? code : oauthErrorOf(code as ErrorCode),
      );
      expect(described["x-error-codes"]).toEqual([...new Set(sent)]);
      expect(codes.length).toBeGreaterThan(0);
      for (const [, code = "", http] of codes) {
        expect([code, http]).toEqual([code, status]);
        answered.add(code);
      }
    }
  }
  const unanswered = visible.map(({ code }) => code).filter((code = "") => !answered.has(code));
  expect(unanswered).toEqual(OUTSIDE_OF_ROUTES);
  for (const code of ["method_not_allowed", "upstream_unavailable", "upstream_timeout"]) {
    expect(String((info as { description: string }).description)).toContain(code);
  }
});

test("docs/migrate names every reason for which a row of an import is refused", () => {
  const sources = [
    "identity-service/imports/judge-row.ts",
    "identity-service/passwords/foreign-hash.ts",
    ...globSync("cli/user-files/*.ts", { cwd: ROOT }).filter((path) => !path.endsWith(".test.ts")),
  ];
  const given = /(?:problem|refusal): "(\w+)"|refuse\("(\w+)"\)|return "(\w+_\w+)"/g;
  const reasons = new Set(
    sources.flatMap((path) => [...read(path).matchAll(given)].map(([, a, b, c]) => a ?? b ?? c)),
  );
  const papers = globSync("docs/migrate/*.md", { cwd: ROOT }).map(read).join("\n");
  expect(reasons.size).toBeGreaterThan(20);
  expect([...reasons].filter((reason) => !papers.includes(`\`${reason}\``))).toEqual([]);
});
