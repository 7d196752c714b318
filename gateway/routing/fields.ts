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
