import { z } from "zod";

interface About {
  /** Of its component in the OpenAPI document. */
  id?: string;
  description?: string;
  format?: string;
  examples?: unknown[];
}

/** In UTF-16 code units. */
export function textField(min: number, max: number, about: About = {}) {
  const text = z.string().max(max);
  return (min === 0 ? text : text.min(min)).meta({ ...about });
}

export function optional<T extends z.ZodType>(field: T) {
  const { id, ...about } = field.meta() ?? {};
  // One with an id is referred to.
  return id === undefined ? field.optional().meta(about) : field.optional();
}

export function textLike(example: string, description?: string) {
  return z.string().meta({ ...(description !== undefined && { description }), examples: [example] });
}

export function intLike(example: number, description?: string) {
  return z.int().meta({ ...(description !== undefined && { description }), examples: [example] });
}

/** Of the query of a list. @param limit with the pattern of the numbers from 1 to `max`. */
export function pageFields({ max, pattern, standard }: { max: number; pattern: RegExp; standard: number }) {
  return {
    cursor: optional(
      textField(1, 512, { description: "`nextCursor` of the page before.", examples: ["MTA0Mg"] }),
    ),
    limit: z
      .string()
      .regex(pattern, `must be a whole number from 1 to ${max}`)
      .transform(Number)
      .default(standard)
      // A number for clients, although a query is text.
      .meta({ type: "integer", pattern: undefined, minimum: 1, maximum: max, default: standard }),
  };
}
