/** `redis[s]://[user@]host[:port]`, or `redis[s]+sentinel://[user@]sentinel[:port],…/primary`. */
const FORM =
  /^redis(?<tls>s?)(?<sentinel>\+sentinel)?:\/\/(?:(?<user>[^@/?#]*)@)?(?<hosts>[^@/?#]*)(?<rest>(?:[/?#].*)?)$/i;
/** What Sentinel accepts as a name. */
const PRIMARY_NAME = /^\/([\w.-]{1,64})$/;
const MAX_SENTINELS = 9;
const PORT = 6_379;
const SENTINEL_PORT = 26_379;

export interface RedisHost {
  /** Without the brackets of an IPv6 address. */
  host: string;
  port: number;
}

export interface RedisTarget {
  /** Of Redis. Sentinels are asked as the default user. */
  username: string;
  hasPassword: boolean;
  isEncrypted: boolean;
  /** One server, or the sentinels. */
  hosts: [RedisHost, ...RedisHost[]];
  /** What the sentinels call the primary. Undefined: `hosts` is the server. */
  primaryName: string | undefined;
}

/** @returns undefined if it cannot be read, or names no host, no primary or more than nine sentinels. */
export function parseRedisUrl(text: string): RedisTarget | undefined {
  const { tls, sentinel, user = "", hosts = "", rest = "" } = FORM.exec(text)?.groups ?? {};
  if (tls === undefined) return undefined;
  const hasSentinels = sentinel !== undefined;
  const texts = hosts.split(",");
  const found = texts.flatMap((host) => hostOf(host, hasSentinels ? SENTINEL_PORT : PORT) ?? []);
  const [first, ...others] = found;
  const isAllowed = found.length === texts.length && found.length <= (hasSentinels ? MAX_SENTINELS : 1);
  const areDistinct = new Set(found.map(({ host, port }) => `${host} ${port}`)).size === found.length;
  const [, primaryName] = PRIMARY_NAME.exec(rest) ?? [];
  if (first === undefined || !isAllowed || !areDistinct) return undefined;
  if (hasSentinels && primaryName === undefined) return undefined;
  const [name = "", ...password] = user.split(":");
  const username = decoded(name);
  if (username === undefined) return undefined;
  return {
    username,
    hasPassword: password.join(":") !== "",
    isEncrypted: tls !== "",
    hosts: [first, ...others],
    primaryName: hasSentinels ? primaryName : undefined,
  };
}

function hostOf(text: string, defaultPort: number): RedisHost | undefined {
  const url = URL.parse(`redis://${text}`);
  if (url === null || url.hostname === "") return undefined;
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? defaultPort : Number(url.port),
  };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** For people: without the user. */
export function redisAddressText(text: string): string {
  const target = parseRedisUrl(text);
  if (target === undefined) return "REDIS_URL";
  const hosts = target.hosts.map(hostText).join(", ");
  return target.primaryName === undefined ? hosts : `${target.primaryName} of the sentinels ${hosts}`;
}

export function hostText({ host, port }: RedisHost): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
