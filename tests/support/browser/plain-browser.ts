import { patientFetch } from "../people/api-client.ts";

/** A browser as far as redirects and cookies go. */
export function plainBrowser(fetch = patientFetch) {
  const jars = new Map<string, Map<string, string>>();
  return async (url: string, method: "GET" | "POST" = "GET") => {
    const { origin } = new URL(url);
    const jar = jars.get(origin) ?? new Map<string, string>();
    jars.set(origin, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { method, headers: { cookie }, redirect: "manual" });
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      jar.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
    const location = response.headers.get("location");
    return { response, next: location === null ? "" : new URL(location, url).href };
  };
}

export type PlainBrowser = ReturnType<typeof plainBrowser>;
