import { z } from "zod";
import type { ImportedUser } from "#proto/gatehouse/identity/v1/user_import_service.ts";

/** What the command line says about names of the other system. */
export interface Mapping {
  /** Roles of the other system, in the order of their precedence, and ours. */
  roles: ReadonlyMap<string, string>;
  /** Identity providers of the other system, and ours. */
  providers: ReadonlyMap<string, string>;
}

/** A user of another system. What is not imported of it is named in `leftOut`. */
export type UserRecord = { sourceId: string; leftOut: readonly string[] } & (
  | { user: ImportedUser }
  /** `field` says where a row is not as expected. */
  | { refusal: string; field?: string }
);

export const NO_USER: ImportedUser = {
  email: "",
  emailVerified: false,
  firstName: "",
  lastName: "",
  name: "",
  passwordHash: "",
  role: "",
  disabled: false,
  mustChangePassword: false,
  identities: [],
  totpSecret: new Uint8Array(0),
  language: "",
};

/** Parses and converts. Never reports a value, which may be a secret. */
export function readRecord<T>(
  value: unknown,
  schema: z.ZodType<T>,
  convert: (given: T) => UserRecord,
): UserRecord {
  if (value === undefined) return { sourceId: "", leftOut: [], refusal: "row_unreadable" };
  const parsed = schema.safeParse(value);
  if (parsed.success) return convert(parsed.data);
  const [issue] = parsed.error.issues;
  const path = issue?.code === "unrecognized_keys" ? [...issue.path, issue.keys[0]] : issue?.path;
  return { sourceId: "", leftOut: [], refusal: "row_invalid", field: path?.join(".") ?? "" };
}

/** How clients of SQL write null into a file of text. */
const NULLS = ["", "null", "NULL", "\\N"];

const valueOrNull = (value: unknown) => (typeof value === "string" && NULLS.includes(value) ? null : value);

/** A value that says nothing is null, whatever the format. */
export function optional<S extends z.ZodType>(schema: S) {
  return z.preprocess(valueOrNull, schema.nullish());
}

/** Without a value it is empty. */
export const text = optional(z.string()).transform((value) => value ?? "");

/** Without a value it is false. Text is no boolean of JSON: `"false"` must not become true. */
export const flag = optional(z.boolean()).transform((value) => value === true);

/** The id of an identity, which must have a value. */
export const subject = z.string().refine((value) => valueOrNull(value) !== null);

/** JSON as text, as databases and Keycloak write it inside of other formats. Empty: null. */
export function jsonText<S extends z.ZodType>(schema: S) {
  return z
    .string()
    .transform((value, context): unknown => {
      try {
        return value === "" ? null : JSON.parse(value);
      } catch {
        context.addIssue({ code: "custom", message: "is not JSON" });
        return z.NEVER;
      }
    })
    .pipe(schema);
}

/** The identities at providers that are mapped, and the names of the others. */
export function mappedIdentities(
  given: readonly { provider: string; subject: string }[],
  { providers }: Mapping,
): { identities: ImportedUser["identities"]; leftOut: string[] } {
  const identities = given.flatMap(({ provider, subject }) => {
    const name = providers.get(provider);
    return name === undefined ? [] : [{ provider: name, subject }];
  });
  const others = given.filter(({ provider }) => !providers.has(provider));
  return { identities, leftOut: others.map(({ provider }) => `provider ${provider}`) };
}
