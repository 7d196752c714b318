import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";

/** A token or an API key, and the call that ends it. */
export interface Revocable {
  accessToken: string;
  end: { method: "POST" | "DELETE"; path: string; accessToken: string };
}

/** How long each gateway went on accepting a token after its end was answered, in milliseconds. */
export interface RevocationDelays {
  /** On the gateway that answered it: the very next request. */
  own: number[];
  others: number[];
}

const GIVE_UP_MS = 30_000;
const POLL_MS = 1;
/** Of an end. 401 and 404: of a repeated one of which the first had its effect. */
const ENDED = [200, 401, 404];

/**
 * Ends tokens, one after the other, each at another gateway, and asks every gateway until it refuses the token.
 *
 * @param begin gives a fresh one.
 * @param path that answers 200 to it.
 * @param addresses of the gateways.
 */
export async function measureRevocations(
  rounds: number,
  begin: () => Promise<Revocable>,
  path: string,
  addresses: readonly string[],
): Promise<RevocationDelays> {
  const pools = addresses.map((address) => new Pool(`http://${address}`, { connections: 4 }));
  const delays: RevocationDelays = { own: [], others: [] };
  for (let round = 0; round < rounds; round += 1) {
    const { accessToken, end } = await begin();
    const use = { method: "GET", path, accessToken } as const;
    for (const pool of pools) {
      const status = await statusOf(pool, use);
      if (status !== 200) throw new Error(`a fresh token got ${status}`);
    }
    const answering = round % pools.length;
    const [own, ...rest] = [pools[answering], ...pools.filter((_, index) => index !== answering)];
    if (own === undefined) throw new Error("no gateway");
    const status = await statusOf(own, end);
    if (!ENDED.includes(status)) throw new Error(`the end got ${status}`);
    const answeredMs = performance.now();
    const untilRefused = async (pool: Pool) => {
      for (;;) {
        const got = await statusOf(pool, use);
        const elapsedMs = performance.now() - answeredMs;
        if (got === 401) return elapsedMs;
        if (elapsedMs > GIVE_UP_MS) return Number.POSITIVE_INFINITY;
        await sleep(POLL_MS);
      }
    };
    const first = await statusOf(own, use);
    delays.own.push(first === 401 ? 0 : Number.POSITIVE_INFINITY);
    delays.others.push(...(await Promise.all(rest.map(untilRefused))));
  }
  await Promise.all(pools.map((pool) => pool.close()));
  return delays;
}

/** Of the first decision: 503 is none, and a busy machine gives some. */
async function statusOf(
  pool: Pool,
  { method, path, accessToken }: { method: "GET" | "POST" | "DELETE"; path: string; accessToken: string },
): Promise<number> {
  for (const endMs = performance.now() + GIVE_UP_MS; ; await sleep(POLL_MS)) {
    const { statusCode, body } = await pool.request({
      method,
      path,
      headers: { authorization: `Bearer ${accessToken}` },
    });
    await body.dump();
    if (statusCode !== 503 || performance.now() > endMs) return statusCode;
  }
}

/** Of a login, whose end is the logout. */
export async function session(login: () => Promise<{ accessToken: string }>): Promise<Revocable> {
  const { accessToken } = await login();
  return { accessToken, end: { method: "POST", path: "/auth/logout", accessToken } };
}
