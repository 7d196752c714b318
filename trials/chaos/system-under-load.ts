import type { TestSmtp } from "#identity-service/testing/test-smtp.ts";
import { plainBrowser } from "#tests/support/browser/plain-browser.ts";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import type { System } from "#tests/support/system/system.ts";

/** For calls of one address. */
export const UNLIMITED = [
  ...["login", "link", "provider", "refresh", "logout", "account", "unknown"].map(
    (name) => `${name}.address`,
  ),
  ...["logout", "account"].map((name) => `${name}.user`),
  ...["login", "link"].map((name) => `${name}.total`),
]
  .map((name) => `${name}=1000000/60`)
  .join(",");
/** The limits of a route. */
export const PLENTY = JSON.stringify(
  Object.fromEntries(
    ["perUser", "perAddress", "total"].map((scope) => [scope, { calls: 1_000_000, perSeconds: 60 }]),
  ),
);

/** @returns the token of the newest mail to an address with a reset link. */
export function keepResetTokens(smtp: TestSmtp): (email: string) => string | undefined {
  const tokens = new Map<string, string>();
  smtp.onMail = async ({ to, raw }) => {
    const [, token] = /reset-password\?token=([\w-]+)/.exec(raw.replaceAll("=3D", "=")) ?? [];
    if (token !== undefined) tokens.set(to[0] ?? "", token);
  };
  return (email) => tokens.get(email);
}

export async function proveAddress(system: Pick<System, "home" | "ports">, userId: string): Promise<void> {
  await using database = await databaseOfSystem(system, "identity");
  await database.sql`
    update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
    where id = ${userId}`;
}

/** @returns where the demo provider sends the browser then. */
export async function logInAtProvider(start: URL): Promise<URL> {
  const browser = plainBrowser();
  const page = (await browser(start.href)).next;
  await browser(page);
  const resumed = (await browser(`${page}/grace`, "POST")).next;
  return new URL((await browser(resumed)).next);
}
