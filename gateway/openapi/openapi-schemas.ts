import { isDeepStrictEqual } from "node:util";
import { z } from "zod";

export type JsonSchema = z.core.JSONSchema.BaseSchema;

type Side = "input" | "output";

/** JSON Schema 2020-12. Schemas with an `id` go to `components`. */
export interface SchemaWriter {
  components: Record<string, JsonSchema>;
  write(schema: z.ZodType, side: Side): JsonSchema;
  /** @throws without anything to make an example of. */
  media(schema: z.ZodType, side: Side): { schema: JsonSchema; example: unknown };
  parameters(schema: z.ZodType | undefined, where: "path" | "query"): { name: string }[];
}

type Written = Parameters<NonNullable<z.core.ToJSONSchemaParams["override"]>>[0];

const LOCAL_REFERENCE = "#/$defs/";
const REFERENCE = "#/components/schemas/";

export function createSchemaWriter(): SchemaWriter {
  const components: Record<string, JsonSchema> = {};

  function write(zodSchema: z.ZodType, side: Side): JsonSchema {
    const {
      $schema: _,
      $defs = {},
      id,
      ...schema
    } = referring(z.toJSONSchema(zodSchema, { io: side, override: (written) => simplify(written, side) }));
    for (const [name, { id: _id, ...component }] of Object.entries($defs)) keep(name, component);
    if (typeof id !== "string") return schema;
    keep(id, schema);
    return { $ref: REFERENCE + id };
  }

  function keep(name: string, component: JsonSchema): void {
    if (!isDeepStrictEqual(components[name] ?? component, component))
      throw new Error(`two schemas have the id ${name}`);
    components[name] = component;
  }

  return {
    components,
    write,
    media(zodSchema, side) {
      const { examples, ...schema } = write(zodSchema, side);
      const example = Array.isArray(examples) ? examples[0] : exampleOf(schema, components);
      return { schema, example };
    },
    parameters(zodSchema, where) {
      if (zodSchema === undefined) return [];
      const { properties = {}, required = [] } = write(zodSchema, "input");
      return Object.entries(properties).map(([name, property]) => {
        const { description, ...schema } = property as JsonSchema;
        return {
          name,
          in: where,
          required: required.includes(name),
          ...(description !== undefined && { description }),
          schema,
        };
      });
    },
  };
}

function referring(schema: JsonSchema): JsonSchema {
  const text = JSON.stringify(schema, (key, value) =>
    key === "$ref" && typeof value === "string" ? value.replace(LOCAL_REFERENCE, REFERENCE) : value,
  );
  return JSON.parse(text);
}

/** Formats describe dates and ids. Answers may have more members in a later version. */
function simplify({ zodSchema, jsonSchema: schema }: Written, side: Side): void {
  // zod has no schema for a transformed value; its metadata has one.
  const { default: byDefault } = z.globalRegistry.get(zodSchema) ?? {};
  if (byDefault !== undefined) schema.default = byDefault;
  if (schema.oneOf !== undefined) {
    // A choice by one member is written as every other choice.
    schema.anyOf = schema.oneOf;
    delete schema.oneOf;
  }
  if (schema.format === "date-time" || schema.format === "uuid") delete schema.pattern;
  const isLarge = schema.type === "integer" && schema.maximum === Number.MAX_SAFE_INTEGER;
  // Without it generators for Java and Go take 32 bits.
  if (isLarge) schema.format = "int64";
  if (side === "input") return;
  if (schema.additionalProperties === false) delete schema.additionalProperties;
  const [list, ...others] = schema.anyOf ?? [];
  if (list?.type === "array" && others.length > 0) {
    // openapi-generator's classes of a choice between a list and an object do not compile; of this they have any value.
    delete schema.anyOf;
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    Object.assign(schema, { if: { type: "array" }, then: list, else: { anyOf: others } });
  }
  if (isLarge) delete schema.maximum;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
}

const EXAMPLES_OF_FORMATS: Readonly<Record<string, string>> = {
  uuid: "0199a000-0000-7000-8000-000000000001",
  "date-time": "2026-01-02T03:04:05.678Z",
};

function exampleOf(schema: JsonSchema, components: Record<string, JsonSchema>): unknown {
  const { $ref, examples, enum: values, anyOf, properties, items, format = "" } = schema;
  const referred = $ref === undefined ? undefined : components[$ref.slice(REFERENCE.length)];
  if (referred !== undefined) return exampleOf(referred, components);
  if (Array.isArray(examples)) return examples[0];
  if (schema.const !== undefined) return schema.const;
  if (values !== undefined) return values[0];
  if (anyOf?.[0] !== undefined) return exampleOf(anyOf[0], components);
  if (properties !== undefined) {
    const members = Object.entries(properties).map(([name, member]) => [
      name,
      exampleOf(member as JsonSchema, components),
    ]);
    return Object.fromEntries(members);
  }
  if (schema.type === "array") return [exampleOf(items as JsonSchema, components)];
  if (schema.type === "boolean") return false;
  if (schema.type === "object") return {};
  const example = EXAMPLES_OF_FORMATS[format];
  if (example === undefined) throw new Error(`no example for ${JSON.stringify(schema)}`);
  return example;
}
