import { z } from "zod";

/** What the document says about a field beside its schema. */
interface About {
  description?: string;
  format?: string;
  examples?: unknown[];
}

/** A text of a request, `min` to `max` UTF-16 code units long. */
export function textField(min: number, max: number, about: About = {}) {
  const text = z.string().max(max);
  return (min === 0 ? text : text.min(min)).meta({ ...about });
}

/** A field that may be absent. The document describes it as it does the field. */
export function optional<T extends z.ZodType>(field: T) {
  return field.optional().meta({ ...field.meta() });
}

/** A text of an answer. */
export function textLike(example: string, description?: string) {
  return z.string().meta({ ...(description !== undefined && { description }), examples: [example] });
}

/** A whole number of an answer. */
export function intLike(example: number, description?: string) {
  return z.int().meta({ ...(description !== undefined && { description }), examples: [example] });
}
