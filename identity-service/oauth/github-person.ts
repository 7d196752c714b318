import * as oidc from "openid-client";
import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";
import { type ExternalPerson, externalPerson } from "./external-person.ts";

const HEADERS = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };

const user = z.object({ id: z.int().positive(), name: z.string().nullish() });
const emails = z.array(z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }));

/** The numeric id is the subject, because login names change owners. @throws {DomainError} `oauth_failed`. */
export async function githubPerson(
  configuration: oidc.Configuration,
  accessToken: string,
  userUrl: string,
): Promise<ExternalPerson> {
  const read = async <S extends z.ZodType>(url: string, schema: S): Promise<z.output<S>> => {
    const response = await oidc.fetchProtectedResource(
      configuration,
      accessToken,
      new URL(url),
      "GET",
      undefined,
      new Headers(HEADERS),
    );
    const result = schema.safeParse(response.ok ? await response.json() : undefined);
    if (!result.success) throw new DomainError("oauth_failed", "the API sent an unexpected answer");
    return result.data;
  };
  const { id, name } = await read(userUrl, user);
  const primary = (await read(`${userUrl}/emails`, emails)).find((address) => address.primary);
  return externalPerson({
    subject: String(id),
    email: primary?.email ?? "",
    isEmailVerified: primary?.verified === true,
    firstName: "",
    lastName: "",
    name: name ?? "",
  });
}
