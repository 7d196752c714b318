import type { BrowserContext, Request, Response } from "playwright-core";

/** Members of bodies whose values nobody else may see. */
const SECRETS = new Set([
  ...[
    "password",
    "newPassword",
    "currentPassword",
    "accessToken",
    "refreshToken",
    "tempToken",
    "stepUpToken",
  ],
  ...["token", "secret", "recoveryCodes", "challengeToken", "codeVerifier"],
]);
/** Six digits, and what people try as a password, are in a log by chance. */
const MIN_CHARACTERS = 12;

export interface BrowserSecrets {
  /** Every secret that a page has sent, or was given, so far. */
  all(): Promise<ReadonlySet<string>>;
}

/** Notes the secrets in bodies and cookies of all calls of one origin, from now on. */
export function noteSecrets(context: BrowserContext, origin: string): BrowserSecrets {
  const found = new Set<string>();
  const reading: Promise<unknown>[] = [];
  const note = (text: string) => {
    if (text.length >= MIN_CHARACTERS) found.add(text);
  };
  const isOurs = (request: Request) => new URL(request.url()).origin === origin;
  context.on("request", (request) => {
    if (isOurs(request)) for (const text of secretsIn(request.postData() ?? "")) note(text);
  });
  context.on("response", (response) => {
    if (isOurs(response.request())) reading.push(readAnswer(response, note).catch(() => undefined));
  });
  return {
    async all() {
      await Promise.all(reading);
      return found;
    },
  };
}

async function readAnswer(response: Response, note: (text: string) => void): Promise<void> {
  for (const { name, value } of await response.headersArray())
    if (name.toLowerCase() === "set-cookie") note(value.slice(value.indexOf("=") + 1).split(";", 1)[0] ?? "");
  if (response.headers()["content-type"]?.includes("json") !== true) return;
  for (const text of secretsIn(await response.text())) note(text);
}

function secretsIn(body: string): string[] {
  try {
    return valuesOf(JSON.parse(body));
  } catch {
    return [];
  }
}

function valuesOf(value: unknown, name = ""): string[] {
  if (typeof value === "string") return SECRETS.has(name) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((item) => valuesOf(item, name));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([member, inner]) => valuesOf(inner, member));
}
