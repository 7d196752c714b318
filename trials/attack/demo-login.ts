const PATIENCE_MS = 20_000;

/** A browser as far as redirects and cookies go, with one jar for each origin. */
export class PlainBrowser {
  readonly #jars = new Map<string, Map<string, string>>();

  keep(origin: string, cookies: readonly string[]): void {
    const jar = this.#jars.get(origin) ?? new Map<string, string>();
    this.#jars.set(origin, jar);
    for (const line of cookies) {
      const [pair = ""] = line.split(";");
      jar.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
  }

  /** @returns where the answer sends the browser; empty if nowhere. */
  async visit(url: string, method: "GET" | "POST" = "GET"): Promise<string> {
    const { origin } = new URL(url);
    const cookie = [...(this.#jars.get(origin) ?? [])].map(([name, value]) => `${name}=${value}`).join("; ");
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const response = await fetch(url, { method, headers: { cookie }, redirect: "manual", signal });
    await response.arrayBuffer();
    this.keep(origin, response.headers.getSetCookie());
    const location = response.headers.get("location");
    return location === null ? "" : new URL(location, url).href;
  }
}

/** Logs in at the demo provider. @returns the callback of the gateway, which nobody has visited yet. */
export async function callbackOf(
  browser: PlainBrowser,
  authorizationUrl: string,
  user: string,
): Promise<string> {
  const page = await browser.visit(authorizationUrl);
  await browser.visit(page);
  return browser.visit(await browser.visit(`${page}/${user}`, "POST"));
}
