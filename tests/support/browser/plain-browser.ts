import { patientFetch } from "../people/api-client.ts";

/** A browser as far as redirects and cookies go. @param kept cookies that it has already, as `Set-Cookie` has them, by origin. */
export function plainBrowser(fetch = patientFetch, kept: Record<string, readonly string[]> = {}) {
  const jars = new Map<string, Map<string, string>>();
  const keep = (origin: string, lines: readonly string[]) => {
    const jar = jars.get(origin) ?? new Map<string, string>();
    jars.set(origin, jar);
    for (const line of lines) {
      const [pair = ""] = line.split(";");
      jar.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
    return jar;
  };
  for (const [origin, lines] of Object.entries(kept)) keep(origin, lines);
  return async (url: string, method: "GET" | "POST" = "GET") => {
    const { origin } = new URL(url);
    const cookie = [...keep(origin, [])].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { method, headers: { cookie }, redirect: "manual" });
    keep(origin, response.headers.getSetCookie());
    const location = response.headers.get("location");
    return { response, next: location === null ? "" : new URL(location, url).href };
  };
}

export type PlainBrowser = ReturnType<typeof plainBrowser>;

/** Logs a user in at the demo provider. @returns the address of the gateway to which the provider redirects; it is not called. */
export async function chooseAtProvider(browser: PlainBrowser, start: string, user: string): Promise<string> {
  const page = (await browser(start)).next;
  await browser(page);
  return (await browser((await browser(`${page}/${user}`, "POST")).next)).next;
}
