import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import type { OpenApiDocument } from "#gateway/openapi/openapi-document.ts";

interface DescribedResponse {
  content?: Record<string, unknown>;
  /** All that this status may have. */
  "x-error-codes"?: string[];
}

/** In our envelope, as problem details, or of OAuth. */
interface AnyFailure {
  error?: string | { code: string };
  code?: string;
  /** RFC 8935 §2.3. */
  err?: string;
  status?: number;
}

/** An answer, as far as the document speaks of it. */
interface DescribedAnswer {
  status: number;
  contentType: string | undefined;
  /** Text. */
  body: string;
}

/** Holds what is sent and answered to an OpenAPI document. */
export interface ContractChecker {
  /** What is wrong with an answer; undefined if it is as documented. No member may be there that is not. */
  problemOf(method: string, path: string, answer: DescribedAnswer): string | undefined;
  /** Whether the document allows this request body. */
  allowsBody(method: string, path: string, mediaType: string, body: unknown): boolean;
}

/** @param path as in the document: `/auth/sessions/{id}`. */
export function contractChecker(document: OpenApiDocument): ContractChecker {
  const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { password: true, "idn-email": true } });
  addFormats.default(ajv);
  ajv.addSchema(closed(structuredClone(document)) as object, "openapi");
  const compiled = new Map<string, ValidateFunction>();

  function validator(...segments: string[]): ValidateFunction {
    const pointer = segments.map((segment) =>
      encodeURIComponent(segment.replaceAll("~", "~0").replaceAll("/", "~1")),
    );
    const $ref = `openapi#/${pointer.join("/")}`;
    const known = compiled.get($ref) ?? ajv.compile({ $ref });
    compiled.set($ref, known);
    return known;
  }

  return {
    allowsBody: (method, path, mediaType, body) =>
      validator("paths", path, method, "requestBody", "content", mediaType, "schema")(body),
    problemOf(method, path, { status, contentType, body }) {
      const name = `${method} ${path} ${status}`;
      const inPath = ["paths", path, method, "responses", String(status)];
      const response = (at(document, inPath) ?? document["x-failures-of-any-request"][status]) as
        | { $ref?: string }
        | undefined;
      if (response === undefined) return `${name} is not in the document: ${body}`;
      const where = response.$ref?.slice(2).split("/") ?? inPath;
      const { content, "x-error-codes": codes } = at(document, where) as DescribedResponse;
      if (content === undefined) return body === "" ? undefined : `${name} should have no body`;
      const mediaType = contentType?.split(";")[0] ?? "";
      if (content[mediaType] === undefined) return `${name} is ${contentType}, which is not in the document`;
      const validate = validator(...where, "content", mediaType, "schema");
      const value: unknown = /[/+]json$/.test(mediaType) ? JSON.parse(body) : body;
      if (!validate(value)) return `${name}: ${ajv.errorsText(validate.errors)} in ${body}`;
      const wrong = codes && typeof value === "object" && wrongMember(value as AnyFailure, codes, status);
      return wrong ? `${name}: ${wrong} is not in the document: ${body}` : undefined;
    },
  };
}

/** What the schema, which all failures share, cannot say. */
function wrongMember(
  { error, code, err, status }: AnyFailure,
  codes: string[],
  expected: number,
): string | undefined {
  const actual = typeof error === "object" ? error.code : (error ?? code ?? err ?? "no code");
  if (status !== undefined && status !== expected) return `status ${status}`;
  return codes.includes(actual) ? undefined : actual;
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((found, key) => (found as Record<string, unknown> | undefined)?.[key], value);
}

/** The document lets answers grow; a test does not. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, member]) => [key, closed(member)]);
  const copy = Object.fromEntries(entries);
  return copy.type === "object" && copy.properties ? { additionalProperties: false, ...copy } : copy;
}

/** The JSON of a part of the document, and of all that it refers to. */
export function textWithReferences(document: object, part: unknown, seen = new Set<string>()): string {
  const text = JSON.stringify(part) ?? "";
  const references = [...text.matchAll(/"#\/([^"]+)"/g)].map(([, pointer = ""]) => pointer);
  const added = [...new Set(references)].filter((pointer) => !seen.has(pointer));
  for (const pointer of added) seen.add(pointer);
  const valueAt = (pointer: string) =>
    pointer.split("/").reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], document);
  return [text, ...added.map((pointer) => textWithReferences(document, valueAt(pointer), seen))].join("\n");
}
