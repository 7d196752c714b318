import SwaggerParser from "@apidevtools/swagger-parser";
import fc from "fast-check";
import { expect, test } from "vitest";
import { DomainError, ERROR_CATALOGUE, type ErrorCode, isErrorCode } from "#kit/values/errors.ts";
import { contractChecker } from "#tests/support/house/openapi-answers.ts";
import { HTTP_STATUS } from "../edge/answers/http-errors.ts";
import { FORM_TYPE, JSON_TYPE, SECURITY_EVENT_TYPE } from "../routing/route-docs.ts";
import { answeringGateway, BROWSER_COOKIE, SERVICE_CREDENTIALS } from "../testing/answering-gateway.ts";
import { send, shippedAccess, testGateway } from "../testing/test-gateway.ts";
import { documentedRoute } from "./documented-route.ts";
import type { JsonSchema } from "./openapi-schemas.ts";

const gateway = answeringGateway();
const { app } = gateway;
const document = await gateway.document();
const checker = contractChecker(document);

interface Parameter {
  name: string;
  in: "path" | "query" | "cookie";
  required: boolean;
  schema: JsonSchema;
}

/** What a reference to a component of the document means; else the same. */
function component(given: object): object {
  const [, group = "", name = ""] = "$ref" in given ? (/(\w+)\/([^/]+)$/.exec(String(given.$ref)) ?? []) : [];
  const groups = document.components as unknown as Record<string, Record<string, object>>;
  return groups[group]?.[name] ?? given;
}

/** An operation of the document, as this test reads it. */
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const { parameters = [], requestBody, security, responses, operationId } = operation;
    const described = Object.values(responses).map((response) =>
      String((component(response) as JsonSchema).description),
    );
    const body = requestBody as
      | { required: boolean; content: Record<string, { schema: JsonSchema; example: unknown }> }
      | undefined;
    return {
      path,
      method,
      operationId,
      body,
      action: operation["x-audit-action"],
      parameters: (parameters as object[]).map(component) as Parameter[],
      ways: (security as Record<string, string[]>[]).map((way) => Object.keys(way)[0]),
      permissions: (security as Record<string, string[]>[]).flatMap((way) => way.accessToken ?? []),
      successes: Object.keys(responses).filter((status) => status < "400"),
      codes: described
        .flatMap((text) => [...text.matchAll(/^- `(\w+)`/gm)].map(([, code = ""]) => code))
        .filter(isErrorCode),
    };
  }),
);

type Operation = (typeof operations)[number];
type Method = NonNullable<Parameters<typeof send>[1]["method"]>;

const each = operations.map((operation) => [`${operation.method} ${operation.path}`, operation] as const);

/** Values that a schema allows. */
function valid(schema: JsonSchema): fc.Arbitrary<unknown> {
  const {
    type,
    format,
    pattern,
    minLength = 0,
    maxLength = 60,
    enum: values,
    properties,
    required = [],
  } = schema;
  if (schema.$ref !== undefined) return valid(component(schema) as JsonSchema);
  if (values !== undefined) return fc.constantFrom(...values);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(valid));
  if (format === "uuid") return fc.uuid();
  if (format === "date-time") {
    return fc
      .date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true })
      .map((date) => date.toISOString());
  }
  if (format === "idn-email") return fc.stringMatching(/^[a-z]{1,20}@[a-z]{2,20}\.[a-z]{2,10}$/);
  if (pattern !== undefined) return ofPattern(pattern);
  if (type === "string") {
    const unit = fc.constantFrom("a", "Z", "7", "-", "é", "ж", "漢", " ");
    return fc.string({ unit, minLength, maxLength: Math.min(maxLength, 60) });
  }
  if (type === "integer") return fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 100 });
  if (type === "boolean") return fc.boolean();
  if (type === "null") return fc.constant(null);
  if (type === "array")
    return fc.array(valid(schema.items as JsonSchema), { minLength: schema.minItems ?? 0, maxLength: 3 });
  if (type !== "object") throw new Error(`nothing is known of ${JSON.stringify(schema)}`);
  const members = Object.fromEntries(
    Object.entries(properties ?? {}).map(([name, member]) => [name, valid(member as JsonSchema)]),
  );
  const { minProperties = 0 } = schema;
  const dependents = (schema.dependentSchemas ?? {}) as Record<string, { minProperties: number }>;
  const record = fc.record(members, { requiredKeys: required });
  return record.filter((object) => {
    const dependent = Object.keys(object).map((name) => dependents[name]?.minProperties ?? 0);
    return Object.keys(object).length >= Math.max(minProperties, ...dependent);
  });
}

/** What the document's patterns allow, by what they are for: a library that makes strings for any expression knows no classes. */
function ofPattern(pattern: string): fc.Arbitrary<string> {
  const candidates = [
    /^[A-Z][a-zé]{0,20}$/,
    /^[a-z][a-z0-9-]{0,31}$/,
    /^[0-9]{6}$/,
    /^[A-Za-z0-9_-]{20,40}$/,
    /^client:[a-z0-9]{1,20}$/,
    /^[A-Z][A-Z0-9_]{0,31}$/,
    /^1?[0-9]:[1-9][0-9]{0,9},2[0-9]:0$/,
  ];
  const wanted = new RegExp(pattern, "u");
  const fitting = candidates.map((candidate) => fc.stringMatching(candidate));
  const found = fitting.find((strings) => fc.sample(strings, 20).every((text) => wanted.test(text)));
  if (found === undefined) throw new Error(`no example is known of ${pattern}`);
  return found;
}

/** A body that is nearly right: members are missing, of anything, or too many. */
function nearlyValid(schema: JsonSchema): fc.Arbitrary<unknown> {
  const { properties = {} } = component(schema) as JsonSchema;
  const members = Object.entries(properties).map(([name, member]) => {
    const value = fc.oneof(
      { weight: 3, arbitrary: valid(member as JsonSchema) },
      fc.jsonValue({ maxDepth: 2 }),
    );
    return [name, value];
  });
  const record = fc.record({ ...Object.fromEntries(members), surplus: fc.jsonValue() }, { requiredKeys: [] });
  return fc.oneof({ weight: 4, arbitrary: record }, fc.jsonValue());
}

const concretePath = (path: string, id: string) => path.replaceAll(/\{\w+\}/g, id);

function pathOf({ path, parameters }: Operation): fc.Arbitrary<string> {
  const inPath = parameters.filter((parameter) => parameter.in === "path");
  const members = Object.fromEntries(inPath.map(({ name, schema }) => [name, valid(schema).map(String)]));
  return fc
    .record(members)
    .map((values) => path.replaceAll(/\{(\w+)\}/g, (_all, name) => encodeURIComponent(values[name] ?? "")));
}

function queryOf(operation: Operation): fc.Arbitrary<string> {
  const parameters = operation.parameters.filter((parameter) => parameter.in === "query");
  const members = Object.fromEntries(parameters.map(({ name, schema }) => [name, valid(schema).map(String)]));
  const requiredKeys = parameters.filter(({ required }) => required).map(({ name }) => name);
  return fc.record(members, { requiredKeys }).map((query) => {
    const text = new URLSearchParams(query as Record<string, string>).toString();
    return text === "" ? "" : `?${text}`;
  });
}

/** Headers that let a call in. */
function admission({ ways, permissions, parameters }: Operation): Record<string, string> {
  const [way] = ways;
  if (parameters.some((parameter) => parameter.in === "cookie")) return { cookie: BROWSER_COOKIE };
  if (way === undefined) return {};
  if (way === "client") return { authorization: SERVICE_CREDENTIALS };
  if (permissions.includes("signals:receive")) return { authorization: "Bearer receiver-token" };
  return { authorization: `Bearer ${permissions.length > 0 ? "admin" : "user"}-token` };
}

const bodyTypeOf = ({ body }: Operation) => Object.keys(body?.content ?? {})[0] ?? JSON_TYPE;

function encoded(body: unknown, mediaType: string): string {
  if (mediaType === SECURITY_EVENT_TYPE) return String(body);
  return mediaType === FORM_TYPE
    ? new URLSearchParams(body as Record<string, string>).toString()
    : JSON.stringify(body);
}

/** Sends a call and holds its answer to the document. */
async function called(
  operation: Operation,
  call: { url: string; headers: Record<string, string>; body?: string },
  at = app,
) {
  const method = operation.method.toUpperCase() as Method;
  const response = await send(at, { ...call, method });
  const answer = {
    status: response.statusCode,
    contentType: response.headers["content-type"]?.toString(),
    body: response.body,
  };
  expect(checker.problemOf(operation.method, operation.path, answer)).toBeUndefined();
  return response;
}

const RUNS = { numRuns: 20 };

test("the document has every own route", () => {
  expect(operations.length).toBeGreaterThan(35);
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
});

/** Of a user who is logged in, under /auth. */
const OWN_WRITES = operations.filter(
  ({ path, method, ways, permissions }) =>
    path.startsWith("/auth/") && method !== "get" && ways.includes("accessToken") && permissions.length === 0,
);

/** Ends, names or proves something, or asks for the second factor itself (docs/decisions/login-and-assurance.md). */
const CHANGES_NO_LOGIN = [
  "delete /auth/sessions/{id}",
  "patch /auth/me",
  "patch /auth/passkeys/{id}",
  "post /auth/approvals/verify",
  "post /auth/confirm-email-change",
  "post /auth/logout",
  "post /auth/me/approvals/{id}/refuse",
  "post /auth/mfa/disable",
  "post /auth/mfa/recovery-codes",
  "post /auth/step-up",
  "post /auth/step-up/verify",
  "post /auth/verify-email",
];

test("each write of a user's own that changes how one logs in says that it may ask for a step-up", () => {
  const quiet = OWN_WRITES.filter(({ codes }) => !codes.includes("step_up_required"));
  expect(quiet.map(({ method, path }) => `${method} ${path}`).sort()).toEqual(CHANGES_NO_LOGIN);
});

test("the document stays small: failures share one schema, and what repeats is a component", () => {
  expect(JSON.stringify(document).length / operations.length).toBeLessThan(2_800);
});

test("the document is OpenAPI 3.1", async () => {
  const copy = structuredClone(document) as unknown as Parameters<typeof SwaggerParser.validate>[0];
  await expect(SwaggerParser.validate(copy)).resolves.toMatchObject({ openapi: "3.1.1" });
});

test.each(each)("%s: the example of its body is what its schema allows", (_name, { method, path, body }) => {
  for (const [mediaType, { example }] of Object.entries(body?.content ?? {})) {
    expect(checker.allowsBody(method, path, mediaType, example), JSON.stringify(example)).toBe(true);
  }
});

test.each([
  ["Failure", "application/json", "/admin/users/{id}", "patch"],
  ["Problem", "application/problem+json", "/admin/users/{id}", "patch"],
  ["OAuthFailure", "application/json", "/oauth/token", "post"],
])("the examples of %s are failures as documented", (name, contentType, path, method) => {
  const examples = document.components.schemas[name]?.examples as object[];
  expect(examples.length).toBeGreaterThan(0);
  for (const example of examples) {
    const [, code] = /"(?:code|error)":"(\w+)"/.exec(JSON.stringify(example)) ?? [];
    if (!isErrorCode(code ?? "")) throw new Error(`${code} is no code`);
    const status = HTTP_STATUS[code as ErrorCode];
    const answer = { status, contentType, body: JSON.stringify(example) };
    expect(checker.problemOf(method, path, answer)).toBeUndefined();
  }
});

test("a route that says nothing about itself stops the start", async () => {
  const route = { method: "GET", url: "/x", handler: () => "", config: { auth: "public" } } as const;
  expect(() => documentedRoute(route)).toThrow("GET /x has no config.docs");
  const { app: ready } = testGateway();
  await ready.ready();
});

test.each(each)(
  "%s: what the document allows is taken, and answered as documented",
  async (_name, operation) => {
    const schema = operation.body?.content[bodyTypeOf(operation)]?.schema;
    const body = schema === undefined ? fc.constant(undefined) : valid(schema);
    const accept = fc.constantFrom("*/*", "application/json", "application/problem+json", "text/html");
    const saidByServices = operation.codes.filter((code) => HTTP_STATUS[code] !== 500);
    const failure = fc.option(fc.constantFrom(...saidByServices), { nil: undefined, freq: 2 });
    const call = fc.record({ path: pathOf(operation), query: queryOf(operation), body, accept, failure });
    await fc.assert(
      fc.asyncProperty(call, async ({ path, query, failure: code, accept: accepted, ...given }) => {
        gateway.failWith(code === undefined ? undefined : new DomainError(code));
        const mediaType = bodyTypeOf(operation);
        const response = await called(operation, {
          url: path + query,
          headers: {
            ...admission(operation),
            accept: accepted,
            ...(given.body !== undefined && { "content-type": mediaType }),
          },
          ...(given.body !== undefined && { body: encoded(given.body, mediaType) }),
        });
        const expected =
          code === undefined ? operation.successes : [...operation.successes, String(HTTP_STATUS[code])];
        expect(expected, response.body).toContain(String(response.statusCode));
      }),
      RUNS,
    );
  },
);

test.each(each.filter(([, { body }]) => body?.content[JSON_TYPE] !== undefined))(
  "%s: takes exactly the bodies that the document allows",
  async (_name, operation) => {
    gateway.failWith(undefined);
    const { schema } = operation.body?.content[JSON_TYPE] ?? {};
    if (schema === undefined) throw new Error("no schema");
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(
        pathOf(operation),
        fc.oneof(valid(schema), nearlyValid(schema)),
        async (path, body) => {
          const text = JSON.stringify(body);
          const response = await called(operation, {
            url: path,
            headers: { ...admission(operation), "content-type": JSON_TYPE },
            body: text,
          });
          // The name is refused everywhere, also where a document takes members of any name.
          const isAllowed =
            !text.includes('"__proto__":') &&
            checker.allowsBody(operation.method, operation.path, JSON_TYPE, body);
          if (!isAllowed) refused += 1;
          expect([response.statusCode < 400, body]).toEqual([isAllowed, body]);
        },
      ),
      { numRuns: 60 },
    );
    expect(refused).toBeGreaterThan(0);
  },
);

test.each(each)("%s: rubbish is refused as documented, and is no defect", async (_name, operation) => {
  gateway.failWith(undefined);
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.constantFrom("{", "null", "[]", '{"a":1,"a":2}', "a=1&a=2", "\u0000", `{"a":"${"x".repeat(17_000)}"}`),
  );
  const call = fc.record(
    {
      body: text,
      type: fc.constantFrom(JSON_TYPE, FORM_TYPE, "text/plain", "application/json; charset=latin1", ""),
      id: fc.stringMatching(/^[a-zA-Z0-9%_-]{1,120}$/),
      query: fc.webQueryParameters().map((query) => `?${query}`),
      accept: fc.constantFrom("application/problem+json", "text/html", "*/*;q=x"),
      token: fc.constantFrom(
        "Bearer nothing",
        "Bearer expired-token",
        "Basic YTpi",
        "Bearer user-token",
        "Bearer admin-token",
      ),
    },
    { requiredKeys: ["id"] },
  );
  await fc.assert(
    fc.asyncProperty(call, async ({ body, type, id, query = "", accept, token }) => {
      const { statusCode } = await called(operation, {
        url: concretePath(operation.path, id) + query,
        headers: {
          ...(type && { "content-type": type }),
          ...(accept && { accept }),
          ...(token && { authorization: token }),
        },
        ...(body !== undefined && { body }),
      });
      expect(statusCode).toBeLessThan(500);
    }),
    { numRuns: 40 },
  );
});

test.each(each)("%s: admits exactly the callers that the document names", async (_name, operation) => {
  gateway.failWith(undefined);
  const url = concretePath(operation.path, "rubbish");
  const codeFor = async (token: string) => {
    const { statusCode } = await called(operation, { url, headers: { authorization: `Bearer ${token}` } });
    return statusCode;
  };
  const [way] = operation.ways;
  const isPublic = way === undefined;
  const anonymous = await called(operation, { url, headers: {} });
  expect(anonymous.statusCode === 401).toBe(!isPublic);
  if (isPublic || way === "client") return;
  const access = shippedAccess();
  for (const [token, role] of [
    ["user-token", "USER"],
    ["support-token", "SUPPORT"],
    ["auditor-token", "AUDITOR"],
    ["admin-token", "ADMIN"],
  ] as const) {
    // Users are refused who they are, with a call that is valid: signal-routes.test.ts.
    if (operation.permissions.includes("signals:receive") && role === "ADMIN") continue;
    const isLetIn = operation.permissions.every((permission) => access.holds(role, permission));
    expect([token, (await codeFor(token)) === 403]).toEqual([token, !isLetIn]);
  }
});

const ID = "0199a000-0000-7000-8000-000000000001";
const unrecorded = answeringGateway({
  nextRecorder: () => ({
    record: () => Promise.reject(new DomainError("audit_unavailable")),
    enqueue: () => undefined,
  }),
});

/** The first example of each parameter of the query that has to be there. */
function neededQuery({ parameters }: Operation): string {
  const needed = parameters.filter((parameter) => parameter.in === "query" && parameter.required);
  const entries = needed.map(({ name, schema }): [string, string] => [
    name,
    String([schema.examples].flat()[0]),
  ]);
  return new URLSearchParams(entries).toString();
}

test.each(each.filter(([, { action }]) => action !== undefined))(
  "%s: is not carried out unless it can be recorded, and says so as documented",
  async (_name, operation) => {
    const mediaType = bodyTypeOf(operation);
    const example = operation.body?.content[mediaType]?.example;
    const call = {
      url: `${concretePath(operation.path, ID)}?${neededQuery(operation)}`,
      headers: { ...admission(operation), ...(example !== undefined && { "content-type": mediaType }) },
      ...(example !== undefined && { body: encoded(example, mediaType) }),
    };
    const response = await called(operation, call, unrecorded.app);
    expect([response.statusCode, operation.codes]).toEqual([
      503,
      expect.arrayContaining(["audit_unavailable"]),
    ]);
    // In JSON and on a page.
    expect(response.body).toContain(ERROR_CATALOGUE.audit_unavailable);
  },
);

const paths = Object.entries(document.paths).map(([path, methods]) => ({
  path,
  url: concretePath(path, ID),
  // What begins or ends a login is no page to look at.
  hasHead: Object.keys(methods.get?.responses ?? {}).some((status) => status === "200"),
  methods: Object.keys(methods).map((method) => method.toUpperCase()),
}));

test.each(paths)(
  "$path: OPTIONS and 405 name its methods, and HEAD is GET without a body",
  async ({ url, methods, hasHead }) => {
    gateway.failWith(undefined);
    const allow = [...methods, ...(hasHead ? ["HEAD"] : [])].sort().concat("OPTIONS").join(", ");
    const options = await send(app, { method: "OPTIONS", url });
    expect([options.statusCode, options.headers.allow, options.body]).toEqual([204, allow, ""]);
    const method = methods.includes("PUT") ? ("SEARCH" as "PUT") : "PUT";
    const wrong = await send(app, { method, url, headers: { accept: "application/problem+json" } });
    expect([wrong.statusCode, wrong.headers.allow]).toEqual([405, allow]);
    expect(wrong.json()).toMatchObject({ status: 405, code: "method_not_allowed" });
    expect((await send(app, { url: `${url}/nothing/here` })).json().error.code).toBe("not_found");
    if (!hasHead) {
      expect((await send(app, { method: "HEAD", url })).statusCode).toBe(405);
      return;
    }
    for (const token of ["admin-token", "nothing"]) {
      const get = await send(app, { url, token });
      const head = await send(app, { method: "HEAD", url, token });
      expect([head.statusCode, head.body]).toEqual([get.statusCode, ""]);
      expect(head.headers["content-type"]).toBe(get.headers["content-type"]);
    }
  },
);

test.each(paths)(
  "$path is version 1, with or without saying so; the document has no version",
  async ({ path, url, methods }) => {
    const method = methods[0] as Method;
    const token = "admin-token";
    const plain = await send(app, { method, url, token });
    const versioned = await send(app, { method, url: `/v1${url}`, token });
    const isDocument = path === "/openapi.json" || path === "/docs";
    expect(versioned.statusCode).toBe(isDocument ? 404 : plain.statusCode);
  },
);
