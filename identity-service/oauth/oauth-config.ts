import { readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { z } from "zod";
import { ConfigError, isElsewhere, readableFileSchema } from "#kit/config/config.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";
import { parseProvidersFile } from "./oauth-providers-file.ts";

const MAX_ADDRESSES = 100;
const MAX_ADDRESS_CHARACTERS = 2_048;
/** Web, and private-use schemes of apps, which contain a dot (RFC 8252 §7.1). */
const SCHEME = /^(?:https?|[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+):$/;

export interface ProvidersFile {
  path: string;
  /** Its text, and a mark of each secret file that it names: they differ when one of them has changed. */
  marked: string;
  providers: readonly ProviderSettings[];
}

// The file is read again when it changes.
const providersFileSchema = readableFileSchema.transform((path, context): ProvidersFile => {
  const folder = dirname(path);
  const marked = withSecretMarks(readFileSync(path, "utf8"), folder);
  try {
    return { path, marked, providers: parseProvidersFile(marked, folder) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
    return z.NEVER;
  }
});

const SECRET_FILE = /\b(?:clientSecretFile|privateKeyFile|tokenFile)["']?\s*:\s*["']?([^"',}\s]+)/g;

/** Adds a comment for each secret file: the time of its last change, so that a new secret needs no restart. */
export function withSecretMarks(text: string, folder: string): string {
  const marks = [...text.matchAll(SECRET_FILE)].map(([, path = ""]) => {
    const state = statSync(resolve(folder, path), { throwIfNoEntry: false });
    return `\n# ${state?.mtimeMs ?? "absent"} ${state?.size ?? 0} ${state?.mode ?? 0}`;
  });
  return text + marks.join("");
}

const returnToSchema = z.string().transform((text, context) => {
  const addresses = text.split(",").map((entry) => entry.trim());
  if (!addresses.every(isReturnTo) || addresses.length > MAX_ADDRESSES) {
    context.addIssue({ code: "custom", message: "must be a comma list of URLs without fragments" });
  }
  return addresses;
});

function isReturnTo(text: string): boolean {
  if (text.length > MAX_ADDRESS_CHARACTERS || !URL.canParse(text)) return false;
  const { protocol, username, password, href } = new URL(text);
  // Normalised, so that the redirect equals the configured text.
  return SCHEME.test(protocol) && username + password === "" && !text.includes("#") && href === text;
}

/** Refine with `oauthConfigProblems`. */
export const oauthConfig = {
  OAUTH_PROVIDERS_FILE: providersFileSchema.optional(),
  /** Exact, comma-separated. */
  OAUTH_RETURN_TO: returnToSchema.optional(),
};

export function oauthConfigProblems(
  config: z.output<z.ZodObject<typeof oauthConfig>> & { PUBLIC_ORIGIN: string },
): { key: keyof typeof oauthConfig; message: string }[] {
  const providers = config.OAUTH_PROVIDERS_FILE?.providers ?? [];
  const isSecure = config.PUBLIC_ORIGIN.startsWith("https:");
  const plain = providers.filter(({ network }) => isSecure && network === "loopback");
  const problems: ReturnType<typeof oauthConfigProblems> = plain.map(({ name }) => ({
    key: "OAUTH_PROVIDERS_FILE",
    message: `${name}: the issuer must be https, as PUBLIC_ORIGIN is`,
  }));
  // RFC 9700 §2.6.
  if (isSecure && config.OAUTH_RETURN_TO?.some((url) => url.startsWith("http:") && isElsewhere(url)))
    problems.push({ key: "OAUTH_RETURN_TO", message: "must be https, or http on this machine" });
  if (providers.length === 0 || config.OAUTH_RETURN_TO !== undefined) return problems;
  return [...problems, { key: "OAUTH_RETURN_TO", message: "is required beside OAUTH_PROVIDERS_FILE" }];
}
