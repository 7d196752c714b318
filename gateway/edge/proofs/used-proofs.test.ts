import { beforeEach, describe, expect, test } from "vitest";
import { UsedProofs } from "./used-proofs.ts";

const clock = { ms: 0, wallMs: 0 };
beforeEach(() => {
  clock.ms = 1_000_000;
  clock.wallMs = 1_800_000_000_000;
});

/** What one Redis remembers, for as many gateways as a test wants. */
function redisOf(known: Set<string> | undefined, connectedAtMs: number | undefined) {
  const client = {
    set: async (key: string, _value: string, _px: "PX", _ms: number, _nx: "NX") => {
      if (known?.has(key)) return null;
      known?.add(key);
      return "OK";
    },
  };
  return {
    connectedAtMs,
    ask: async <T>(work: (redis: never) => Promise<T>) => known && (await work(client as never)),
  };
}

const gateway = (redis?: ReturnType<typeof redisOf>, maxRemembered?: number) =>
  new UsedProofs({
    redis,
    nowMs: () => clock.ms,
    wallMs: () => clock.wallMs,
    ...(maxRemembered !== undefined && { maxRemembered }),
  });
const USER = "ada";
const proofOf = (nonce?: string, jti = "j", jkt = "k") => ({ jkt, jti, nonce });

describe("without Redis", () => {
  test("a proof needs a nonce of this process", async () => {
    const [here, elsewhere] = [gateway(), gateway()];
    for (const nonce of [undefined, "shared", "made-up", elsewhere.nonce])
      expect(await here.use(proofOf(nonce), USER)).toBe("needs_nonce");
    expect(here.use(proofOf(here.nonce), USER)).toBe("first");
  });

  test("a proof counts once, and another key may use the same id", () => {
    const proofs = gateway();
    expect(proofs.use(proofOf(proofs.nonce), USER)).toBe("first");
    expect(proofs.use(proofOf(proofs.nonce), USER)).toBe("again");
    expect(proofs.use(proofOf(proofs.nonce, "j", "other"), USER)).toBe("first");
    expect(proofs.use(proofOf(proofs.nonce, "other"), USER)).toBe("first");
  });

  test("key and id are not run together", () => {
    const proofs = gateway();
    expect(proofs.use(proofOf(proofs.nonce, "b c", "a"), USER)).toBe("first");
    expect(proofs.use(proofOf(proofs.nonce, "c", "a b"), USER)).not.toBe("needs_nonce");
  });

  test("a proof is remembered for as long as its nonce is accepted", async () => {
    const proofs = gateway();
    const { nonce } = proofs;
    for (let steps = 0; steps < 40; steps += 1) {
      expect(await proofs.use(proofOf(nonce), USER)).toBe(
        steps === 0 ? "first" : clock.ms < 1_120_000 ? "again" : "needs_nonce",
      );
      clock.ms += 7_000;
    }
    expect(proofs.size).toBe(0);
  });

  test("a nonce is accepted for up to three minutes, and without calls for two", () => {
    const proofs = gateway();
    const { nonce } = proofs;
    clock.ms += 119_999;
    expect(proofs.use(proofOf(nonce), USER)).toBe("first");
    clock.ms += 59_999;
    expect(proofs.use(proofOf(nonce), USER)).toBe("again");
    clock.ms += 1;
    expect(proofs.use(proofOf(nonce), USER)).toBe("needs_nonce");
    const later = proofs.nonce;
    clock.ms += 120_000;
    expect(proofs.use(proofOf(later), USER)).toBe("needs_nonce");
  });

  test("one user, by however many keys, takes at most a twentieth of the memory, and the others have the rest", () => {
    const proofs = gateway(undefined, 100);
    const { nonce } = proofs;
    for (let nth = 0; nth < 5; nth += 1)
      expect(proofs.use(proofOf(nonce, "j", `key ${nth}`), USER)).toBe("first");
    for (let nth = 5; nth < 25; nth += 1)
      expect(() => proofs.use(proofOf(nonce, "j", `key ${nth}`), USER)).toThrow(
        expect.objectContaining({ code: "too_many_requests", retryAfterMs: 1_000 }),
      );
    expect(proofs.size).toBe(5);
    expect(proofs.use(proofOf(nonce, "j", "key 4"), USER)).toBe("again");
    expect(proofs.use(proofOf(nonce, "j", "key 5"), "ben")).toBe("first");
  });

  test("a user has at most as many as are free, so that the next one finds room", () => {
    const proofs = gateway(undefined, 40);
    const { nonce } = proofs;
    for (let nth = 0; nth < 38; nth += 1) proofs.use(proofOf(nonce, `${nth}`), `user ${nth}`);
    expect(proofs.use(proofOf(nonce, "one of two"), USER)).toBe("first");
    expect(() => proofs.use(proofOf(nonce, "the last"), USER)).toThrow(
      expect.objectContaining({ code: "too_many_requests" }),
    );
    expect(proofs.use(proofOf(nonce, "the last"), "ben")).toBe("first");
  });

  test("a full memory refuses calls with tokens rather than forget one", () => {
    const proofs = gateway(undefined, 20);
    const { nonce } = proofs;
    for (let nth = 0; nth < 20; nth += 1) proofs.use(proofOf(nonce, `${nth}`), `user ${nth}`);
    expect(() => proofs.use(proofOf(nonce), "one more")).toThrow(
      expect.objectContaining({ code: "service_unavailable" }),
    );
    expect(proofs.use(proofOf(nonce, "0"), USER)).toBe("again");
  });

  test("a look remembers nothing, and knows what was used", () => {
    const proofs = gateway();
    const { nonce } = proofs;
    expect([proofs.look(proofOf(nonce)), proofs.look(proofOf(nonce)), proofs.size]).toEqual([
      "first",
      "first",
      0,
    ]);
    proofs.use(proofOf(nonce), USER);
    expect(proofs.look(proofOf(nonce))).toBe("again");
    for (const other of [undefined, "shared", "made-up"])
      expect(proofs.look(proofOf(other))).toBe("needs_nonce");
    const shared = gateway(redisOf(new Set(), 0));
    expect([shared.look(proofOf()), shared.look(proofOf("shared"))]).toEqual(["first", "first"]);
  });

  test("strangers fill only the memory of requests for tokens, which forgets the oldest", () => {
    const proofs = gateway(undefined, 200);
    const { nonce } = proofs;
    for (let nth = 0; nth < 100; nth += 1)
      expect(proofs.use(proofOf(nonce, "j", `stranger ${nth}`), undefined)).toBe("first");
    expect(proofs.use(proofOf(nonce, "j", "stranger 99"), undefined)).toBe("again");
    expect(proofs.use(proofOf(nonce, "j", "stranger 0"), undefined)).toBe("first");
    expect(proofs.size).toBeLessThanOrEqual(20);
    expect(proofs.use(proofOf(nonce), USER)).toBe("first");
  });
});

describe("with Redis", () => {
  const LONG_AGO = 0;

  test("a proof counts once on all gateways, without a nonce or with the shared one", async () => {
    const known = new Set<string>();
    const gateways = [gateway(redisOf(known, LONG_AGO)), gateway(redisOf(known, LONG_AGO))];
    const uses = gateways.flatMap((one) => [one.use(proofOf(), USER), one.use(proofOf("shared"), USER)]);
    expect((await Promise.all(uses)).sort()).toEqual(["again", "again", "again", "first"]);
    expect(gateways.map(({ nonce }) => nonce)).toEqual(["shared", "shared"]);
  });

  test("its own nonce is the memory's business, and another gateway's is refused", async () => {
    const known = new Set<string>();
    const alone = gateway(redisOf(undefined, undefined));
    const together = gateway(redisOf(known, LONG_AGO));
    expect(alone.use(proofOf(alone.nonce), USER)).toBe("first");
    expect(await together.use(proofOf(alone.nonce), USER)).toBe("needs_nonce");
  });

  test("a Redis that does not answer decides nothing", async () => {
    expect(await gateway(redisOf(undefined, LONG_AGO)).use(proofOf(), USER)).toBe("needs_nonce");
  });

  test("a connection counts from when every proof is newer than it: what was there before may be lost", async () => {
    const known = new Set<string>();
    const proofs = gateway(redisOf(known, clock.ms));
    expect(await proofs.use(proofOf(), USER)).toBe("needs_nonce");
    clock.ms += 65_000;
    expect(await proofs.use(proofOf(), USER)).toBe("needs_nonce");
    clock.ms += 1;
    expect(await proofs.use(proofOf(), USER)).toBe("first");
    expect(known.size).toBe(1);
  });

  test("while the clock is behind where it was, proofs need a nonce", async () => {
    const proofs = gateway(redisOf(new Set(), LONG_AGO));
    expect(await proofs.use(proofOf(), USER)).toBe("first");
    clock.wallMs -= 600_000;
    expect(await proofs.use(proofOf(undefined, "2"), USER)).toBe("needs_nonce");
    expect(proofs.nonce).not.toBe("shared");
    clock.wallMs += 600_000;
    expect(await proofs.use(proofOf(undefined, "2"), USER)).toBe("first");
  });
});
