import { type LookupAddress, lookup as lookupName } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { Agent } from "undici";
import { createSlots } from "./slots.ts";

/** `private` also admits 10.0.0.0/8 and similar; `loopback` admits plain HTTP for development. */
export type ReachableNetwork = "public" | "private" | "loopback";

export type OutboundProblem =
  | "not_https"
  | "address_refused"
  | "redirect"
  | "too_long"
  | "too_slow"
  | "unreachable"
  | "too_many";

/** Safe to log: nothing comes from the server. */
export class OutboundError extends Error {
  override readonly name = "OutboundError";
  readonly problem: OutboundProblem;

  constructor(problem: OutboundProblem, cause?: unknown) {
    super(`outbound request: ${problem}`, cause === undefined ? undefined : { cause });
    this.problem = problem;
  }
}

interface OutboundRequest {
  method: string;
  headers: Record<string, string>;
  body?: string | URLSearchParams | Uint8Array | null | undefined;
  signal?: AbortSignal | undefined;
}

export interface OutboundHttp {
  /** @throws {OutboundError} for a forbidden, incomplete or late answer. */
  fetch(url: string, request: OutboundRequest): Promise<Response>;
  close(): Promise<void>;
}

export interface OutboundOptions {
  /** Several: what one of them admits. */
  network: ReachableNetwork | readonly ReachableNetwork[];
  /** Limits one request, from DNS lookup to last byte. */
  timeoutMs?: number;
  maxBytes?: number;
  maxRequests?: number;
  maxWaitMs?: number;
  lookup?: (name: string) => Promise<LookupAddress[]>;
  /** PEM. Defaults to the system's authorities. */
  ca?: string | undefined;
}

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 1024 * 1024;
const MAX_REQUESTS = 32;
const MAX_WAITING = 128;
const MAX_WAIT_MS = 1_000;
/** Of plain HTTP. */
const PLAIN: readonly ReachableNetwork[] = ["loopback"];
const KEPT_HEADERS = ["content-type", "etag", "retry-after"];
const NULL_BODY = new Set([204, 205, 304]);

/**
 * HTTPS only (HTTP on loopback), no redirects or proxies. Checks addresses at the connection, against DNS rebinding.
 */
export function createOutboundHttp(options: OutboundOptions): OutboundHttp {
  const { timeoutMs = TIMEOUT_MS, maxBytes = MAX_BYTES, maxRequests = MAX_REQUESTS } = options;
  const { maxWaitMs = MAX_WAIT_MS } = options;
  const networks = [options.network].flat();
  const find = sharedLookup(options.lookup ?? resolveAddresses);
  const openAgent = (reachable: readonly ReachableNetwork[]) =>
    new Agent({
      connections: maxRequests,
      pipelining: 1,
      connect: {
        timeout: timeoutMs,
        lookup: guardedLookup(reachable, find),
        ...(options.ca !== undefined && { ca: options.ca }),
      },
    });
  const agents = { "https:": openAgent(networks), "http:": openAgent(PLAIN) };
  const slots = createSlots({ count: maxRequests, maxWaiting: MAX_WAITING, maxWaitMs });
  return {
    async fetch(url, request) {
      const target = new URL(url);
      assertAllowed(target, networks);
      const release = await slots.take();
      if (release === undefined) throw new OutboundError("too_many");
      const deadline = AbortSignal.timeout(timeoutMs);
      try {
        const signals = [deadline, ...(request.signal ? [request.signal] : [])];
        const agent = agents[target.protocol as keyof typeof agents];
        return await exchange(agent, target, request, { signal: AbortSignal.any(signals), maxBytes });
      } catch (error) {
        throw problemOf(error, deadline.aborted || request.signal?.aborted === true);
      } finally {
        release();
      }
    },
    async close() {
      await Promise.all(Object.values(agents).map((agent) => agent.destroy()));
    },
  };
}

/** For a literal address, which has no lookup. */
export function isAllowedUrl(url: string, network: ReachableNetwork | readonly ReachableNetwork[]): boolean {
  try {
    assertAllowed(new URL(url), [network].flat());
    return true;
  } catch {
    return false;
  }
}

function assertAllowed(url: URL, networks: readonly ReachableNetwork[]): void {
  const isPlain = url.protocol === "http:" && networks.includes("loopback");
  if (url.protocol !== "https:" && !isPlain) throw new OutboundError("not_https");
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const reachable = isPlain ? PLAIN : networks;
  if (isIP(host) !== 0 && !isAllowedIn(host, reachable)) throw new OutboundError("address_refused");
}

async function exchange(
  agent: Agent,
  url: URL,
  { method, headers, body }: OutboundRequest,
  { signal, maxBytes }: { signal: AbortSignal; maxBytes: number },
): Promise<Response> {
  const response = await agent.request({
    origin: url.origin,
    path: url.pathname + url.search,
    method: method as "GET",
    headers,
    body: body instanceof URLSearchParams ? body.toString() : (body ?? null),
    signal,
  });
  const { statusCode: status } = response;
  if (status >= 300 && status < 400) {
    response.body.on("error", () => undefined).destroy();
    throw new OutboundError("redirect");
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response.body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // This destroys the connection.
    if (bytes > maxBytes) throw new OutboundError("too_long");
    chunks.push(chunk);
  }
  const kept = KEPT_HEADERS.flatMap((name) => {
    const value = response.headers[name];
    return typeof value === "string" ? [[name, value] as [string, string]] : [];
  });
  return new Response(NULL_BODY.has(status) ? null : Buffer.concat(chunks), {
    status,
    headers: kept,
  });
}

function problemOf(error: unknown, isLate: boolean): OutboundError {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof OutboundError) return cause;
  }
  return new OutboundError(isLate ? "too_slow" : "unreachable", error);
}

async function resolveAddresses(name: string): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookupName(name, { all: true }, (error, found) => (error === null ? resolve(found) : reject(error)));
  });
}

/** All who ask for a name at a time wait for one look-up: it takes a thread of a few, however long its server is silent. */
function sharedLookup(find: typeof resolveAddresses): typeof resolveAddresses {
  const underWay = new Map<string, Promise<LookupAddress[]>>();
  return (name) => {
    const known = underWay.get(name);
    if (known !== undefined) return known;
    const found = find(name).finally(() => underWay.delete(name));
    underWay.set(name, found);
    return found;
  };
}

/** One forbidden address rejects the name. */
function guardedLookup(
  networks: readonly ReachableNetwork[],
  find: (name: string) => Promise<LookupAddress[]>,
): LookupFunction {
  return (name, options, callback) => {
    find(name)
      .then((found) => {
        const [first] = found;
        if (first === undefined || !found.every(({ address }) => isAllowedIn(address, networks))) {
          throw new OutboundError("address_refused");
        }
        if (options.all) callback(null, found);
        else callback(null, first.address, first.family);
      })
      .catch((error: NodeJS.ErrnoException) => callback(error, "", 0));
  };
}

const subnets = (...networks: [string, number][]) => {
  const list = new BlockList();
  for (const [address, length] of networks) {
    list.addSubnet(address, length, isIP(address) === 6 ? "ipv6" : "ipv4");
  }
  return list;
};

const LOOPBACK = subnets(["127.0.0.0", 8], ["::1", 128]);
/** RFC 1918, RFC 6598, RFC 4193. */
const PRIVATE = subnets(
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["100.64.0.0", 10],
  ["fc00::", 7],
);
/** Other special-purpose ranges of IANA. */
const SPECIAL = subnets(
  ["0.0.0.0", 8],
  ["169.254.0.0", 16],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
);
/** Without link-local, mapped IPv4 and NAT64. */
const GLOBAL_IPV6 = subnets(["2000::", 3]);

const isAllowedIn = (address: string, networks: readonly ReachableNetwork[]) =>
  networks.some((network) => isAllowedAddress(address, network));

export function isAllowedAddress(address: string, network: ReachableNetwork): boolean {
  const family = isIP(address) === 6 ? "ipv6" : "ipv4";
  const isIn = (list: BlockList) => list.check(address, family);
  if (network === "loopback") return isIn(LOOPBACK);
  if (isIn(LOOPBACK) || isIn(SPECIAL)) return false;
  if (isIn(PRIVATE)) return network === "private";
  return family === "ipv4" || isIn(GLOBAL_IPV6);
}
