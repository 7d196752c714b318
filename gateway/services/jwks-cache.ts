import { z } from "zod";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type Cacheable, cacheable, sendCacheable } from "../edge/answers/cacheable.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textLike } from "../routing/fields.ts";
import { CACHE_HEADERS, UNCHANGED } from "../routing/route-docs.ts";

export interface Jwks {
  /** JSON text of a JWK Set. */
  json: string;
  /** How long readers may keep it. */
  maxAgeS: number;
}

export interface JwksCache {
  /** @throws {DomainError} `service_unavailable` without a fresh set. */
  get(context: CallContext): Promise<Jwks>;
  /** For a banned key. Replicas may still send it. */
  refuseKey(keyId: string): void;
  /** Keys whose tokens may be accepted. A set without one of them is fetched again. */
  expectKeys(keyIds: ReadonlySet<string>): void;
}

/** Of the last good set, while token-service is unavailable. */
const MAX_STALE_MS = 10 * 60_000;
/** Pause after a failure. */
const RETRY_AFTER_MS = 1_000;
/** This long after a ban, readers keep a set only briefly. Their copies may be older. */
const BAN_IS_YOUNG_MS = MAX_STALE_MS;
const MAX_AGE_AFTER_BAN_S = 60;
/** For a set of a replica that does not know the newest ban or key. */
const MAX_AGE_OF_OLDER_SET_S = 1;
/** The oldest bans are of keys that no set contains. */
const MAX_BANS = 1_000;

/** Refuses private and symmetric members. */
const publicKey = z
  .looseObject({ kty: z.enum(["OKP", "EC", "RSA"]), kid: z.string().min(1) })
  .refine((key) => ["d", "p", "q", "dp", "dq", "qi", "oth", "k"].every((member) => !(member in key)));
const publicKeySet = z.strictObject({ keys: z.array(publicKey).min(1) });

type Key = z.infer<typeof publicKey>;

/** At most one request is in flight. */
export function createJwksCache(
  fetchJwks: (context: CallContext) => Promise<Jwks>,
  nowMs: () => number,
): JwksCache {
  let known: { keys: Key[]; jwks: Jwks; fetchedMs: number } | undefined;
  let fetching: Promise<Jwks> | undefined;
  let failedMs = Number.NEGATIVE_INFINITY;
  let bannedMs = Number.NEGATIVE_INFINITY;
  let expected: ReadonlySet<string> = new Set();
  const banned = new Set<string>();

  async function refresh(context: CallContext): Promise<Jwks> {
    try {
      const jwks = await fetchJwks(context);
      const set: unknown = JSON.parse(jwks.json);
      publicKeySet.parse(set);
      // The parser would reorder their members.
      keep((set as { keys: Key[] }).keys, jwks);
    } catch (error) {
      failedMs = nowMs();
      if (lastGood() === undefined && error instanceof DomainError) throw error;
      if (lastGood() === undefined) {
        throw new DomainError("service_unavailable", undefined, { cause: error });
      }
    } finally {
      fetching = undefined;
    }
    const good = lastGood();
    if (good === undefined) throw new DomainError("service_unavailable");
    return good;
  }

  function keep(keys: Key[], { json, maxAgeS }: Jwks): void {
    const good = keys.filter(({ kid }) => !banned.has(kid));
    const hasAll = [...expected].every((kid) => banned.has(kid) || good.some((key) => key.kid === kid));
    const isWhole = good.length === keys.length;
    known = undefined;
    if (good.length === 0) return;
    known = {
      keys: good,
      jwks: {
        json: isWhole ? json : JSON.stringify({ keys: good }),
        maxAgeS: isWhole && hasAll ? maxAgeS : Math.min(maxAgeS, MAX_AGE_OF_OLDER_SET_S),
      },
      fetchedMs: nowMs(),
    };
  }

  function lastGood(): Jwks | undefined {
    if (known === undefined) return undefined;
    const ageMs = nowMs() - known.fetchedMs;
    const { json, maxAgeS } = known.jwks;
    if (ageMs >= Math.max(MAX_STALE_MS, maxAgeS * 1_000)) return undefined;
    const leftS = Math.max(0, maxAgeS - Math.floor(ageMs / 1_000));
    const isAfterBan = nowMs() - bannedMs < BAN_IS_YOUNG_MS;
    return { json, maxAgeS: isAfterBan ? Math.min(leftS, MAX_AGE_AFTER_BAN_S) : leftS };
  }

  function askAgain(): void {
    if (known === undefined) return;
    const { keys, jwks, fetchedMs } = known;
    keep(keys, { ...jwks, maxAgeS: 0 });
    if (known !== undefined) known.fetchedMs = fetchedMs;
  }

  return {
    async get(context) {
      const good = lastGood();
      const isFresh = good !== undefined && good.maxAgeS > 0;
      const hasJustFailed = nowMs() - failedMs < RETRY_AFTER_MS;
      if (good !== undefined && (isFresh || hasJustFailed)) return good;
      fetching ??= refresh(context);
      return fetching;
    },
    refuseKey(keyId) {
      if (banned.has(keyId)) return;
      banned.add(keyId);
      const [oldest] = banned;
      if (banned.size > MAX_BANS && oldest !== undefined) banned.delete(oldest);
      bannedMs = nowMs();
      askAgain();
    },
    expectKeys(keyIds) {
      expected = keyIds;
      const isMissing = [...keyIds].some((kid) => known?.keys.every((key) => key.kid !== kid));
      if (isMissing) askAgain();
    },
  };
}

const MEDIA_TYPE = "application/jwk-set+json";

const keySetAnswer = z
  .looseObject({
    keys: z.array(z.looseObject({ kty: textLike("OKP"), kid: textLike("2026-01-a") })),
  })
  .meta({ id: "JwkSet", description: "RFC 7517, section 5." });

/** RFC 7517 §5, RFC 8615. */
export function registerJwksRoute(app: GatewayApp, jwks: Pick<JwksCache, "get">): void {
  let keySet: { json: string; file: Cacheable } | undefined;
  routeIn(app, "Services")("getKeys", "GET", "/.well-known/jwks.json", {
    summary: "The public keys of access tokens",
    policy: { auth: "public", limitClass: "document" },
    answers: {
      200: { description: "A JWK Set.", content: { [MEDIA_TYPE]: keySetAnswer }, headers: CACHE_HEADERS },
      304: UNCHANGED,
    },
    handler: async (request, reply) => {
      const { json, maxAgeS } = await jwks.get(request.state.call);
      if (keySet?.json !== json) keySet = { json, file: cacheable(json, `${MEDIA_TYPE}; charset=utf-8`) };
      return sendCacheable(request, reply, keySet.file, `public, max-age=${maxAgeS}`);
    },
  });
}
