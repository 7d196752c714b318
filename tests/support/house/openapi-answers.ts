import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import type { OpenApiDocument } from "#gateway/openapi/openapi-document.ts";

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
      const response = at(document, inPath) as
        | { $ref?: string; content?: Record<string, unknown> }
        | undefined;
      if (response === undefined) return `${name} is not in the document: ${body}`;
      const where = response.$ref?.slice(2).split("/") ?? inPath;
      const { content } = at(document, where) as { content?: Record<string, unknown> };
      if (content === undefined) return body === "" ? undefined : `${name} should have no body`;
      const mediaType = contentType?.split(";")[0] ?? "";
      if (content[mediaType] === undefined) return `${name} is ${contentType}, which is not in the document`;
      const validate = validator(...where, "content", mediaType, "schema");
      if (validate(/[/+]json$/.test(mediaType) ? JSON.parse(body) : body)) return undefined;
      return `${name}: ${ajv.errorsText(validate.errors)} in ${body}`;
    },
  };
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((found, key) => (found as Record<string, unknown> | undefined)?.[key], value);
}

/** The document lets answers grow; a test does not. What is in an `allOf` narrows something that is closed itself. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, member]) => [
    key,
    key === "allOf" ? member : closed(member),
  ]);
  const copy = Object.fromEntries(entries);
  return copy.type === "object" && copy.properties ? { additionalProperties: false, ...copy } : copy;
}
