import type { ProxyRoute } from "../routing/proxy-table.ts";

/** Where the public path of a call differs from the upstream's. */
export interface Place {
  version: string;
  route: Pick<ProxyRoute, "prefix" | "stripPrefix" | "upstreams">;
}

/** `//host` or `scheme://host`, also with the backslashes that browsers take for slashes. */
const WITH_AUTHORITY = /^(?:https?:)?[/\\]{2}[^/\\?#]*/i;

/** Headers of an answer whose value names a place of the upstream. */
const REWRITERS = new Map<string, (value: string, place: Place) => string>([
  ["location", publicReference],
  ["content-location", publicReference],
  ["refresh", publicRefresh],
  ["link", publicLinks],
]);

/** As clients can use it. @param name in lower case. */
export function publicValue(name: string, value: string, place: Place): string {
  return REWRITERS.get(name)?.(value, place) ?? value;
}

/** https://html.spec.whatwg.org/#shared-declarative-refresh-steps */
function publicRefresh(value: string, place: Place): string {
  const [time = ""] = /^[\d.]+/.exec(value) ?? [];
  const rest = value.slice(time.length);
  const target = rest.trimStart().replace(/^[;,]/, "").trimStart();
  if (time === "" || target === rest) return value;
  const url = target.replace(/^url\s*=\s*/i, "").replace(/^["']/, "");
  return value.slice(0, value.length - url.length) + publicReference(url, place);
}

/** RFC 8288 §3: a target stands at the beginning, or behind a comma. */
function publicLinks(value: string, place: Place): string {
  const parts = value.split("<");
  const before = (index: number) => parts[index - 1]?.trimEnd();
  return parts
    .map((part, index) => {
      const isTarget = before(index)?.endsWith(",") || (index === 1 && before(index) === "");
      const end = part.indexOf(">");
      if (!isTarget || end === -1) return part;
      return publicReference(part.slice(0, end), place) + part.slice(end);
    })
    .join("<");
}

/** Relative references and those to other origins stay as they are. */
function publicReference(reference: string, place: Place): string {
  const [start] = WITH_AUTHORITY.exec(reference) ?? [];
  if (start === undefined) return reference.startsWith("/") ? publicPath(reference, place) : reference;
  if (!isOwn(start, place)) return reference;
  const rest = reference.slice(start.length);
  const path = publicPath(rest.startsWith("/") ? rest : `/${rest}`, place);
  // Browsers would take what follows for a host (RFC 3986 §4.2). They leave out tabs.
  return /^\/\t*[/\\]/.test(path) ? `/.${path}` : path;
}

/** Of any of the route's upstreams, with either scheme: it may take its own from `X-Forwarded-Proto`. */
function isOwn(start: string, { route }: Place): boolean {
  return route.upstreams.some((origin) => URL.parse(start, origin)?.host === new URL(origin).host);
}

/** An upstream that knows its prefix from `X-Forwarded-Prefix` has put it there itself. */
export function publicPath(path: string, place: Place): string {
  const cut = cutPrefix(place);
  if (cut === "" || isBelow(path, cut) || isBelow(path, place.route.prefix)) return path;
  return cut + path;
}

function isBelow(path: string, prefix: string): boolean {
  return path.startsWith(prefix) && /^(?:[/?#]|\s*$)/.test(path.slice(prefix.length));
}

/** The part of a path that its upstream does not see. */
export function cutPrefix({ route, version }: Place): string {
  return route.stripPrefix ? version + route.prefix : "";
}
