import { resolve } from "node:path";
import { z } from "zod";
import { Secret } from "#kit/config/config.ts";
import { readPrivateFile, secretProblem } from "#kit/config/secret-file.ts";
import { parseYamlFile } from "#kit/config/yaml-file.ts";
import { isThisHost } from "#kit/values/network-of.ts";
import { isAllowedUrl, type ReachableNetwork } from "#outbound-http/outbound-http.ts";
import { parseAppleKey } from "./apple-client-secret.ts";
import {
  type ClaimNames,
  type ClientAuthentication,
  type ProviderSettings,
  RESERVED_PROVIDER_NAMES,
  type SecurityEventSettings,
} from "./oauth-provider-settings.ts";

const MAX_PROVIDERS = 32;
const MAX_SECRET_CHARACTERS = 4_096;

const text = (maximum: number) => z.string().min(1).max(maximum);
const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const base = {
  /** In the path `/auth/<name>/callback`. */
  name: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/, "must be 1 to 32 lower-case letters, digits and dashes, a letter first")
    .refine((name) => !RESERVED_PROVIDER_NAMES.has(name), "is the name of a path under /auth"),
  displayName: text(64)
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]+$/u, "must be printable text")
    .optional(),
  clientId: text(512),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/, "must be a scope"))
    .min(1)
    .max(32)
    .optional(),
};
const secret = { clientSecretFile: text(4_096) };

const claimName = text(128);
const claims = z.strictObject({
  email: claimName.optional(),
  emailVerified: claimName.optional(),
  firstName: claimName.optional(),
  lastName: claimName.optional(),
});
const endpoints = z.strictObject({
  authorization: z.url(),
  token: z.url(),
  jwks: z.url(),
  userinfo: z.url().optional(),
});

const securityEvents = z.strictObject({
  audience: text(512),
  issuer: text(512).optional(),
  jwks: z.url().optional(),
  tokenFile: text(4_096).optional(),
});

const generic = z.strictObject({
  ...base,
  preset: z.undefined().optional(),
  issuer: z.url(),
  endpoints: endpoints.optional(),
  clientSecretFile: secret.clientSecretFile.optional(),
  clientAuthentication: z
    .enum(["client_secret_basic", "client_secret_post", "none"])
    .default("client_secret_basic"),
  claims: claims.optional(),
  allowPrivateNetwork: z.boolean().default(false),
  securityEvents: securityEvents.optional(),
});
const google = z.strictObject({ ...base, ...secret, preset: z.literal("google") });
const microsoft = z.strictObject({
  ...base,
  ...secret,
  preset: z.literal("microsoft"),
  /** `common` and `organizations` have no fixed issuer and admit anyone. */
  tenant: z.string().regex(GUID, "must be the tenant id of one directory, in lower case"),
});
const apple = z.strictObject({
  ...base,
  preset: z.literal("apple"),
  teamId: z.string().regex(/^[A-Z0-9]{10}$/, "must be Apple's team id: ten characters"),
  keyId: z.string().regex(/^[A-Z0-9]{10}$/, "must be Apple's key id: ten characters"),
  privateKeyFile: text(4_096),
});
const gitlab = z.strictObject({
  ...base,
  ...secret,
  preset: z.literal("gitlab"),
  issuer: z.url().default("https://gitlab.com"),
  allowPrivateNetwork: z.boolean().default(false),
});
const github = z.strictObject({ ...base, ...secret, preset: z.literal("github") });

const provider = z.discriminatedUnion("preset", [generic, google, microsoft, apple, gitlab, github], {
  error: (issue) =>
    issue.code === "invalid_union" ? "must be google, microsoft, apple, gitlab, github, or unset" : undefined,
});
type GivenProvider = z.output<typeof provider>;

const CLAIMS: ClaimNames = {
  email: "email",
  emailVerified: "email_verified",
  firstName: "given_name",
  lastName: "family_name",
};
const OIDC_SCOPES = ["openid", "email", "profile"];
const COMMON = {
  protocol: "oidc",
  endpoints: undefined,
  afreshPrompt: "login",
  responseMode: "query",
  claims: CLAIMS,
  takesBooleanText: false,
  network: "public",
} as const;

/** GitHub defines no issuer. */
const GITHUB = {
  issuer: "https://github.com",
  endpoints: {
    authorization: "https://github.com/login/oauth/authorize",
    token: "https://github.com/login/oauth/access_token",
    userinfo: "https://api.github.com/user",
  },
};

/** YAML 1.2. Paths resolve against `folder`. @throws {ConfigError} with line and key of all problems, never values. */
export function parseProvidersFile(text: string, folder: string): ProviderSettings[] {
  const file = z.strictObject({
    providers: z
      .array(provider.transform((given, context) => settingsOf(given, folder, context)))
      .max(MAX_PROVIDERS)
      .superRefine(refuseDuplicates),
  });
  return parseYamlFile(text, file, "the providers file").providers;
}

function refuseDuplicates(providers: ProviderSettings[], context: z.RefinementCtx): void {
  const isFirst = (key: (settings: ProviderSettings) => string, index: number) =>
    providers.findIndex((other) => key(other) === key(providers[index] as ProviderSettings)) === index;
  for (const [index, { name }] of providers.entries()) {
    if (!isFirst((settings) => settings.name, index)) {
      context.addIssue({ code: "custom", path: [index, "name"], message: `${name} appears twice` });
    }
  }
}

function settingsOf(given: GivenProvider, folder: string, context: z.RefinementCtx): ProviderSettings {
  const read = (key: string, path: string) => readSecret(key, resolve(folder, path), context);
  const common = { ...COMMON, name: given.name, clientId: given.clientId };
  const named = (displayName: string, scopes: readonly string[]) => ({
    displayName: given.displayName ?? displayName,
    scopes: given.scopes ?? scopes,
  });
  const byPost = (path: string): ClientAuthentication => ({
    kind: "client_secret_post",
    secret: read("clientSecretFile", path),
  });
  switch (given.preset) {
    case "google":
      return {
        ...common,
        ...named("Google", OIDC_SCOPES),
        issuer: "https://accounts.google.com",
        // Google knows no `login`.
        afreshPrompt: "select_account",
        clientAuthentication: byPost(given.clientSecretFile),
      };
    case "microsoft":
      return {
        ...common,
        ...named("Microsoft", OIDC_SCOPES),
        issuer: `https://login.microsoftonline.com/${given.tenant}/v2.0`,
        clientAuthentication: byPost(given.clientSecretFile),
      };
    case "apple":
      return {
        ...common,
        // Apple sends the address only with `form_post`.
        ...named("Apple", ["openid", "email"]),
        issuer: "https://appleid.apple.com",
        afreshPrompt: undefined,
        responseMode: "form_post",
        takesBooleanText: true,
        clientAuthentication: appleAuthentication(
          given,
          read("privateKeyFile", given.privateKeyFile),
          context,
        ),
      };
    case "gitlab":
      return {
        ...common,
        ...named("GitLab", OIDC_SCOPES),
        ...placed(given, context),
        clientAuthentication: byPost(given.clientSecretFile),
      };
    case "github":
      return {
        ...common,
        ...GITHUB,
        ...named("GitHub", ["read:user", "user:email"]),
        protocol: "github",
        afreshPrompt: "select_account",
        clientAuthentication: byPost(given.clientSecretFile),
      };
    default:
      return {
        ...common,
        ...named(given.name, OIDC_SCOPES),
        ...placed(given, context),
        endpoints: given.endpoints,
        claims: claimNames(given.claims),
        securityEvents: given.securityEvents && eventSettings(given, given.securityEvents, read),
        clientAuthentication: genericAuthentication(given, read, context),
      };
  }
}

function placed(
  given: {
    issuer: string;
    allowPrivateNetwork: boolean;
    endpoints?: z.output<typeof endpoints> | undefined;
    securityEvents?: z.output<typeof securityEvents> | undefined;
  },
  context: z.RefinementCtx,
): { issuer: string; network: ReachableNetwork } {
  const isPlain = given.issuer.startsWith("http:");
  const network = isPlain ? "loopback" : given.allowPrivateNetwork ? "private" : "public";
  const refuse = (path: string[], message: string) => context.addIssue({ code: "custom", path, message });
  const { hostname, search, hash, username, password } = new URL(given.issuer);
  if (search + hash + username + password !== "") refuse(["issuer"], "must have no query, fragment or user");
  if (isPlain && !isThisHost(hostname)) refuse(["issuer"], "must be https, or http on a loopback address");
  else if (!isAllowedUrl(given.issuer, network))
    refuse(["issuer"], "must be https, and not a private address");
  for (const [key, url] of Object.entries(given.endpoints ?? {})) {
    if (url !== undefined && !isAllowedUrl(url, network))
      refuse(["endpoints", key], "must be https, at an address that is allowed for the issuer");
  }
  const { jwks } = given.securityEvents ?? {};
  if (jwks !== undefined && !isAllowedUrl(jwks, network))
    refuse(["securityEvents", "jwks"], "must be https, at an address that is allowed for the issuer");
  return { issuer: given.issuer, network };
}

/** `email_verified` speaks of `email` alone (OpenID Connect Core §5.1), which may be all that its user has proven. */
function claimNames(given: z.output<typeof claims> = {}): ClaimNames {
  const emailVerified = given.emailVerified ?? `${given.email ?? CLAIMS.email}_verified`;
  return { ...CLAIMS, ...withoutUndefined(given), emailVerified };
}

function eventSettings(
  { issuer }: { issuer: string },
  given: z.output<typeof securityEvents>,
  read: (key: string, path: string) => Secret<string>,
): SecurityEventSettings {
  const { tokenFile, jwks } = given;
  const token = tokenFile === undefined ? undefined : read("securityEvents.tokenFile", tokenFile);
  return { audience: given.audience, issuer: given.issuer ?? issuer, jwks, token };
}

function genericAuthentication(
  given: z.output<typeof generic>,
  read: (key: string, path: string) => Secret<string>,
  context: z.RefinementCtx,
): ClientAuthentication {
  const { clientAuthentication: kind, clientSecretFile } = given;
  const isNone = kind === "none";
  if (isNone !== (clientSecretFile === undefined)) {
    const message = isNone ? "must not be set with clientAuthentication none" : "is required";
    context.addIssue({ code: "custom", path: ["clientSecretFile"], message });
  }
  if (kind === "none" || clientSecretFile === undefined) return { kind: "none" };
  return { kind, secret: read("clientSecretFile", clientSecretFile) };
}

function appleAuthentication(
  { teamId, keyId }: z.output<typeof apple>,
  privateKey: Secret<string>,
  context: z.RefinementCtx,
): ClientAuthentication {
  if (privateKey.reveal() !== "" && parseAppleKey(privateKey.reveal()) === undefined) {
    context.addIssue({ code: "custom", path: ["privateKeyFile"], message: "must hold Apple's .p8 key" });
  }
  return { kind: "apple", teamId, keyId, privateKey };
}

function readSecret(key: string, path: string, context: z.RefinementCtx): Secret<string> {
  const refuse = (message: string) => {
    context.addIssue({ code: "custom", path: key.split("."), message });
    return new Secret("");
  };
  const { bytes, problem } = readPrivateFile(path);
  if (problem !== undefined) return refuse(problem);
  const content = bytes.toString("utf8").trimEnd();
  if (content.length > MAX_SECRET_CHARACTERS) return refuse("the file is too long");
  const secretIs = secretProblem(content);
  return secretIs === undefined ? new Secret(content) : refuse(secretIs);
}

function withoutUndefined<T extends object>(value: T): { [K in keyof T]-?: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]-?: Exclude<T[K], undefined> };
}
