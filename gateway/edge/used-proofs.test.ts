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
const proofOf = (nonce?: string, jti = "j", jkt = "k") => ({ jkt, jti, nonce });

describe("without Redis", () => {
  test("a proof needs a nonce of this process", async () => {
    const [here, elsewhere] = [gateway(), gateway()];
    for (const nonce of [undefined, "shared", "made-up", elsewhere.nonce])
      expect(await here.use(proofOf(nonce), true)).toBe("needs_nonce");
    expect(here.use(proofOf(here.nonce), true)).toBe("first");
  });

  test("a proof counts once, and another key may use the same id", () => {
    const proofs = gateway();
    expect(proofs.use(proofOf(proofs.nonce), true)).toBe("first");
    expect(proofs.use(proofOf(proofs.nonce), true)).toBe("again");
    expect(proofs.use(proofOf(proofs.nonce, "j", "other"), true)).toBe("first");
    expect(proofs.use(proofOf(proofs.nonce, "other"), true)).toBe("first");
  });

  test("key and id are not run together", () => {
    const proofs = gateway();
    expect(proofs.use(proofOf(proofs.nonce, "b c", "a"), true)).toBe("first");
    expect(proofs.use(proofOf(proofs.nonce, "c", "a b"), true)).not.toBe("needs_nonce");
  });

  test("a proof is remembered for as long as its nonce is accepted", async () => {
    const proofs = gateway();
    const { nonce } = proofs;
    for (let steps = 0; steps < 40; steps += 1) {
      expect(await proofs.use(proofOf(nonce), true)).toBe(
        steps === 0 ? "first" : clock.ms < 1_120_000 ? "again" : "needs_nonce",
      );
      clock.ms += 7_000;
    }
    expect(proofs.size).toBe(0);
  });

  test("a nonce ends after two minutes at the latest, also without calls", async () => {
    const proofs = gateway();
    const { nonce } = proofs;
    clock.ms += 120_000;
    expect(await proofs.use(proofOf(nonce), true)).toBe("needs_nonce");
  });

  test("one key takes at most a twentieth of the memory, and the others have the rest", () => {
    const proofs = gateway(undefined, 100);
    const { nonce } = proofs;
    for (let nth = 0; nth < 5; nth += 1) expect(proofs.use(proofOf(nonce, `${nth}`), true)).toBe("first");
    expect(() => proofs.use(proofOf(nonce, "6"), true)).toThrow(
      expect.objectContaining({ code: "too_many_requests" }),
    );
    expect(proofs.use(proofOf(nonce, "6", "other"), true)).toBe("first");
  });

  test("a full memory refuses calls with tokens rather than forget one", () => {
    const proofs = gateway(undefined, 20);
    const { nonce } = proofs;
    for (let nth = 0; nth < 20; nth += 1)
      expect(proofs.use(proofOf(nonce, "j", `key ${nth}`), true)).toBe("first");
    expect(() => proofs.use(proofOf(nonce, "j", "one more"), true)).toThrow(
      expect.objectContaining({ code: "service_unavailable" }),
    );
    expect(proofs.use(proofOf(nonce, "j", "key 0"), true)).toBe("again");
  });

  test("strangers fill only the memory of requests for tokens, which forgets the oldest", () => {
    const proofs = gateway(undefined, 200);
    const { nonce } = proofs;
    for (let nth = 0; nth < 100; nth += 1)
      expect(proofs.use(proofOf(nonce, "j", `stranger ${nth}`), false)).toBe("first");
    expect(proofs.use(proofOf(nonce, "j", "stranger 99"), false)).toBe("again");
    expect(proofs.use(proofOf(nonce, "j", "stranger 0"), false)).toBe("first");
    expect(proofs.size).toBeLessThanOrEqual(20);
    expect(proofs.use(proofOf(nonce), true)).toBe("first");
  });
});

describe("with Redis", () => {
  const LONG_AGO = 0;

  test("a proof counts once on all gateways, without a nonce or with the shared one", async () => {
    const known = new Set<string>();
    const gateways = [gateway(redisOf(known, LONG_AGO)), gateway(redisOf(known, LONG_AGO))];
    const uses = gateways.flatMap((one) => [one.use(proofOf(), true), one.use(proofOf("shared"), true)]);
    expect((await Promise.all(uses)).sort()).toEqual(["again", "again", "again", "first"]);
    expect(gateways.map(({ nonce }) => nonce)).toEqual(["shared", "shared"]);
  });

  test("its own nonce is the memory's business, and another gateway's is refused", async () => {
    const known = new Set<string>();
    const alone = gateway(redisOf(undefined, undefined));
    const together = gateway(redisOf(known, LONG_AGO));
    expect(alone.use(proofOf(alone.nonce), true)).toBe("first");
    expect(await together.use(proofOf(alone.nonce), true)).toBe("needs_nonce");
  });

  test("a Redis that does not answer decides nothing", async () => {
    expect(await gateway(redisOf(undefined, LONG_AGO)).use(proofOf(), true)).toBe("needs_nonce");
  });

  test("a connection counts from when every proof is newer than it: what was there before may be lost", async () => {
    const known = new Set<string>();
    const proofs = gateway(redisOf(known, clock.ms));
    expect(await proofs.use(proofOf(), true)).toBe("needs_nonce");
    clock.ms += 65_000;
    expect(await proofs.use(proofOf(), true)).toBe("needs_nonce");
    clock.ms += 1;
    expect(await proofs.use(proofOf(), true)).toBe("first");
    expect(known.size).toBe(1);
  });

  test("while the clock is behind where it was, proofs need a nonce", async () => {
    const proofs = gateway(redisOf(new Set(), LONG_AGO));
    expect(await proofs.use(proofOf(), true)).toBe("first");
    clock.wallMs -= 600_000;
    expect(await proofs.use(proofOf(undefined, "2"), true)).toBe("needs_nonce");
    expect(proofs.nonce).not.toBe("shared");
    clock.wallMs += 600_000;
    expect(await proofs.use(proofOf(undefined, "2"), true)).toBe("first");
  });
});
