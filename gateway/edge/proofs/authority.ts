import type { IncomingMessage } from "node:http";

/** An address in brackets, or a name; and a port (RFC 3986 §3.2). */
const AUTHORITY = /^(?:(\[[0-9a-f:.]+\])|([^\s:@[\]/?#\\]+?)\.?)(?::(\d{0,5}))?$/;
/** RFC 9112 §3.2.2, without user information. */
const ABSOLUTE_FORM = /^(https?):\/\/([^/?#@\\]+)([/?].*)?$/i;
const DEFAULT_PORTS: Readonly<Record<string, string>> = { http: "80", https: "443" };

/**
 * Authorities that are the same are written the same: in lower case, without the default port of their scheme and without
 * the dot at the end of a name (RFC 3986 §6.2.2 and §6.2.3). @param scheme empty if unknown.
 */
export function normalAuthority(written: string, scheme: string): string {
  const lower = written.toLowerCase();
  const [whole, address, name = "", digits = ""] = AUTHORITY.exec(lower) ?? [];
  if (whole === undefined) return lower;
  const host = address === undefined ? name : (URL.parse(`http://${address}`)?.hostname ?? address);
  const port = digits === "" ? "" : String(Number(digits));
  return port === "" || port === DEFAULT_PORTS[scheme] ? host : `${host}:${port}`;
}

/** Of `scheme://authority`, as browsers send it. */
export function normalOrigin(written: string): string {
  const [, scheme, authority, rest] = ABSOLUTE_FORM.exec(written) ?? [];
  if (scheme === undefined || authority === undefined || rest !== undefined) return written;
  return `${scheme.toLowerCase()}://${normalAuthority(authority, scheme.toLowerCase())}`;
}

/** @param authority as of `normalAuthority`. @param hosts may name the default port. */
export function isAllowedHost(hosts: ReadonlySet<string>, authority: string, scheme: string): boolean {
  return hosts.has(authority) || hosts.has(`${authority}:${DEFAULT_PORTS[scheme]}`);
}

/** The scheme and authority of a target in absolute form. */
export function authorityOf(target: string): { scheme: string; authority: string } | undefined {
  const [, scheme, authority] = target.startsWith("/") ? [] : (ABSOLUTE_FORM.exec(target) ?? []);
  if (scheme === undefined || authority === undefined) return undefined;
  return { scheme: scheme.toLowerCase(), authority };
}

/** Other targets stay as they are, for the request guard. */
export function originForm(target: string): string {
  if (authorityOf(target) === undefined) return target;
  const [, , , rest = "/"] = ABSOLUTE_FORM.exec(target) ?? [];
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** Before the framework reads the scheme and the target. @returns the target. */
export function normalizeRequest({ headers, url = "" }: IncomingMessage): string {
  const scheme = headers["x-forwarded-proto"];
  // Schemes have no case (RFC 3986 §3.1). Some proxies name those of WebSockets.
  if (scheme !== undefined) {
    headers["x-forwarded-proto"] = String(scheme)
      .toLowerCase()
      .replace(/\bws(?=s?\b)/g, "http");
  }
  return originForm(url);
}
