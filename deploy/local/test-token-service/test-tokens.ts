import { createSecretKey, type KeyObject, randomBytes, randomUUID } from "node:crypto";
import { z } from "zod";
import type { Logger } from "#kit/telemetry/logger.ts";
import { ROLE_NAME } from "#kit/values/access-names.ts";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { AssuranceLevel } from "#token-client/assurance.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { RevocationSet } from "#token-client/revocation-set.ts";
import { SLOTS } from "#token-client/session-slot.ts";
import {
  generateSigningKey,
  importPrivateKey,
  importPublicKey,
  type SigningKey,
} from "#token-service/keys/signing-key.ts";
import { Parts } from "#token-service/parts/parts.ts";
import { createMemoryBell } from "#token-service/revocations/revocation-bell.ts";
import { RevocationFeed } from "#token-service/revocations/revocation-feed.ts";
import type { LogPosition, LogRead, Revocation } from "#token-service/revocations/revocation-store.ts";
import { accessTokenLifeS, MAX_ACCESS_TTL_S } from "#token-service/revocations/token-lifetimes.ts";
import { bindingTo } from "#token-service/rows/confirmation.ts";
import type { SessionRow } from "#token-service/rows/session-store.ts";
import type { TokenRpcDeps } from "#token-service/token-rpc.ts";
import { GATEWAY_CLIENT_ID } from "#token-service/tokens/access-token.ts";
import { exchangeToken } from "#token-service/tokens/exchange-token.ts";
import { issueClientToken } from "#token-service/tokens/issue-client-token.ts";
import { secondsOf, signAccessToken } from "#token-service/tokens/sign-pair.ts";

const ISSUER = "http://tests.gatehouse.invalid";
const ALGORITHM = "EdDSA";
const LIFE_MS = 900_000;
/** Of tokens, and of revocations. */
const MAX_KEPT = 100_000;
/** As after a login with a password, with a second factor, and with a passkey. */
const AMR: Record<AssuranceLevel, string[]> = {
  1: ["pwd"],
  2: ["pwd", "otp", "mfa"],
  3: ["hwk", "user", "mfa"],
};

const uuid = z.guid("must be a UUID").toLowerCase();
const time = z.iso.datetime({ offset: true }).transform((text) => new Date(text));
const common = {
  sessionId: uuid.default(() => randomUUID()),
  audience: z.string().min(1).max(256).optional(),
  expiresAt: time.default(() => new Date(Date.now() + LIFE_MS)),
};
/** The words of the doubles in `clients/`. */
const userSchema = z.strictObject({
  userId: uuid,
  role: z.string().regex(ROLE_NAME, "must be a role's name, such as USER"),
  acr: z.literal([1, 2, 3]).default(1),
  amr: z.array(z.string().min(1).max(32)).min(1).max(8).optional(),
  authTime: time.optional(),
  ...common,
});
const clientSchema = z.strictObject({
  clientId: uuid,
  scopes: z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/)).min(1),
  ...common,
});
const revocationSchema = z.union([
  z.strictObject({ token: z.string() }),
  z.strictObject({ sessionId: uuid }),
  z.strictObject({ userId: uuid }),
  z.strictObject({ everything: z.literal(true) }),
]);

const ALL_SLOTS = { changes: 0, bits: Buffer.alloc(SLOTS / 8, 0xff) };

type Key = SigningKey & { privateKey: KeyObject };
type Target = { sessionId: string; keyId: null } | { sessionId: null; keyId: string };

/** token-service's own code signs, verifies and revokes. Its keys and its log are in memory, in place of the database. */
export class TestTokens {
  readonly deps: TokenRpcDeps;
  readonly #feed: RevocationFeed;
  readonly #keys = new Map<string, Key>();
  readonly #log: Revocation[] = [];
  readonly #sessionsOf = new Map<string, Set<string>>();
  #issued = 0;

  constructor(logger: Logger) {
    const accessTtlS = MAX_ACCESS_TTL_S;
    const find = (keyId: string) => this.#keys.get(keyId);
    const ignore = () => undefined;
    const known = new RevocationSet(Number.POSITIVE_INFINITY);
    this.#feed = new RevocationFeed({
      read: async ({ positions }) => this.#readLog(positions),
      known,
      bell: createMemoryBell(),
      logger,
      accessTtlS,
      onKeyRevoked: ignore,
      onKeys: ignore,
    });
    this.deps = {
      issuer: ISSUER,
      lifetimes: { accessTtlS, refreshIdleTtlS: 0, sessionAbsoluteTtlS: 0, refreshGraceS: 0 },
      jwksMaxAgeS: 1,
      keys: { find, findAgain: async (id) => find(id), publicJwks: () => ({ keys: this.#publicKeys() }) },
      revocations: new Parts([{ number: 0, revocations: this.#feed }], known),
      leaves: { saw: ignore },
      askForApiKey: async () => undefined,
      verified: boundedCache(MAX_KEPT),
      now: () => new Date(),
      assertClock: ignore,
      countRefusal: ignore,
      logRefusal: ignore,
    };
  }

  async start(): Promise<void> {
    await this.#addKey();
    await this.#feed.start();
  }

  stop(): void {
    this.#feed.stop();
  }

  /** @throws {z.ZodError} or {DomainError} for a principal that no token has. */
  async issue(wanted: object): Promise<{ token: string; sessionId: string; expiresAt: Date }> {
    const principal = "clientId" in wanted ? clientSchema.parse(wanted) : userSchema.parse(wanted);
    const { sessionId, audience, expiresAt } = principal;
    // One that has ended was issued while it was valid.
    const issuedAt = new Date(Math.min(Date.now(), expiresAt.getTime() - 1_000));
    const issuedAtS = secondsOf(issuedAt);
    const accessTtlS = secondsOf(expiresAt) - issuedAtS;
    if (accessTtlS > MAX_ACCESS_TTL_S)
      throw new DomainError("validation_failed", `expiresAt is more than ${MAX_ACCESS_TTL_S} s ahead`);
    this.#issued += 1;
    assertRoom(this.#issued);
    const deps = {
      ...this.deps,
      keys: { ...this.deps.keys, active: () => this.#active() },
      lifetimes: { ...this.deps.lifetimes, accessTtlS },
      now: () => issuedAt,
    };
    const { accessToken } =
      "clientId" in principal
        ? issueClientToken(deps, { ...principal, credentialId: sessionId, provenAt: issuedAt })
        : signAccessToken(deps, this.#session(principal, issuedAt), { nowS: issuedAtS, issuedAtS });
    const meant =
      audience === undefined ? undefined : await exchangeToken(deps, { token: accessToken, audience });
    return { token: meant?.accessToken ?? accessToken, sessionId, expiresAt };
  }

  /** As a logout, a change of a user, or `sessions revoke-all`. VerifyToken knows it when this resolves. */
  async revoke(wanted: object): Promise<void> {
    const target = revocationSchema.parse(wanted);
    if ("everything" in target) await this.#banKey();
    else for (const sessionId of this.#idsOf(target)) this.#append({ sessionId, keyId: null });
    await this.#feed.refresh();
  }

  #idsOf(target: { token: string } | { sessionId: string } | { userId: string }): Iterable<string> {
    if ("sessionId" in target) return [target.sessionId];
    if ("userId" in target) return this.#sessionsOf.get(target.userId) ?? [];
    const jws = parseCompactJws(target.token);
    if (typeof jws === "string" || !this.#keys.has(jws.header.kid))
      throw new DomainError("validation_failed", "This token-service has not issued the token");
    const { client_id: clientId, sid, jti } = jws.payload;
    return [String(clientId === GATEWAY_CLIENT_ID ? sid : jti)];
  }

  /** As after a login at `issuedAt`. */
  #session(
    {
      userId,
      role,
      acr,
      amr = AMR[acr],
      authTime,
      sessionId: id,
      expiresAt: end,
    }: z.output<typeof userSchema>,
    begun: Date,
  ): SessionRow {
    this.#sessionsOf.set(userId, (this.#sessionsOf.get(userId) ?? new Set()).add(id));
    const user = { userId, role, amr, acr, authTime: authTime ?? begun };
    const secrets = { tokenSecret: randomBytes(32), generation: 1, leafSeen: false, ...bindingTo(undefined) };
    const times = { rotatedAt: begun, createdAt: begun, lastUsedAt: begun, idleEnd: end, absoluteEnd: end };
    const device = { deviceKey: null, deviceProofs: 0 };
    return {
      id,
      ...user,
      ...secrets,
      ...times,
      ...device,
      idleS: null,
      revokedAt: null,
      ip: "",
      userAgent: "",
    };
  }

  #readLog(known: readonly LogPosition[]): LogRead {
    const after = Math.max(...known.map(({ sequence }) => sequence));
    const position = { sequence: this.#log.length, tip: this.#log.at(-1)?.tip ?? "" };
    const keys = this.#publicKeys().map((publicJwk) => {
      return { keyId: publicJwk.kid ?? "", algorithm: ALGORITHM, publicJwk } as const;
    });
    const revocations = this.#log.slice(after);
    return { after, position, isHead: true, revocations, keys, slots: ALL_SLOTS, readAt: new Date() };
  }

  #append(target: Target): void {
    const sequence = this.#log.length + 1;
    assertRoom(sequence);
    const expiresAtS = secondsOf(new Date()) + accessTokenLifeS(MAX_ACCESS_TTL_S);
    this.#log.push({ sequence, tip: randomUUID(), expiresAtS, ...target });
  }

  async #banKey(): Promise<void> {
    const key = this.#active();
    await this.#addKey();
    key.state = "revoked";
    this.#append({ sessionId: null, keyId: key.id });
  }

  async #addKey(): Promise<void> {
    const { id, publicJwk, privateJwk } = await generateSigningKey(ALGORITHM);
    const state = {
      state: "active",
      createdAt: new Date(),
      activatedAt: new Date(),
      retiredAt: null,
    } as const;
    const [publicKey, privateKey] = [importPublicKey(publicJwk, ALGORITHM), importPrivateKey(privateJwk)];
    const refreshSecret = createSecretKey(randomBytes(32));
    this.#keys.set(id, {
      id,
      algorithm: ALGORITHM,
      publicJwk,
      publicKey,
      privateKey,
      refreshSecret,
      ...state,
    });
  }

  #active(): Key {
    const key = this.#usable().at(-1);
    if (key === undefined) throw new Error("No signing key is active");
    return key;
  }

  #usable(): Key[] {
    return [...this.#keys.values()].filter(({ state }) => state === "active");
  }

  #publicKeys() {
    return this.#usable().map(({ publicJwk }) => publicJwk);
  }
}

function assertRoom(count: number): void {
  if (count <= MAX_KEPT) return;
  throw new DomainError("validation_failed", `A token-service for tests keeps ${MAX_KEPT}: start another`);
}
