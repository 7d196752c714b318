import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";
import type { ApiClient } from "./api-client.ts";

/** How long each gateway went on accepting a token after the logout was answered, in milliseconds. */
export interface LogoutDelays {
  /** On the gateway that answered it: the very next request. */
  own: number[];
  others: number[];
}

const GIVE_UP_MS = 30_000;
const POLL_MS = 1;

/**
 * Logs sessions out, one after the other, each on another gateway, and asks every gateway until it refuses the token.
 *
 * @param login gives a fresh session.
 * @param addresses of the gateways.
 */
export async function measureLogouts(
  rounds: number,
  login: () => ReturnType<ApiClient["logIn"]>,
  addresses: readonly string[],
): Promise<LogoutDelays> {
  const pools = addresses.map((address) => new Pool(`http://${address}`, { connections: 4 }));
  const delays: LogoutDelays = { own: [], others: [] };
  /** Of the first decision: 503 is none, and a busy machine gives some. */
  const statusOf = async (pool: Pool, token: string, method: "GET" | "POST", path: string) => {
    for (const endMs = performance.now() + GIVE_UP_MS; ; await sleep(POLL_MS)) {
      const { statusCode, body } = await pool.request({
        method,
        path,
        headers: { authorization: `Bearer ${token}` },
      });
      await body.dump();
      if (statusCode !== 503 || performance.now() > endMs) return statusCode;
    }
  };
  for (let round = 0; round < rounds; round += 1) {
    const { accessToken } = await login();
    for (const pool of pools) {
      const status = await statusOf(pool, accessToken, "GET", "/auth/me");
      if (status !== 200) throw new Error(`a fresh token got ${status}`);
    }
    const answering = round % pools.length;
    const [own, ...rest] = [pools[answering], ...pools.filter((_, index) => index !== answering)];
    if (own === undefined) throw new Error("no gateway");
    const status = await statusOf(own, accessToken, "POST", "/auth/logout");
    // 401: of a repeated logout of which the first had its effect.
    if (status !== 200 && status !== 401) throw new Error(`logout got ${status}`);
    const answeredMs = performance.now();
    const untilRefused = async (pool: Pool) => {
      for (;;) {
        const got = await statusOf(pool, accessToken, "GET", "/auth/me");
        const elapsedMs = performance.now() - answeredMs;
        if (got === 401) return elapsedMs;
        if (elapsedMs > GIVE_UP_MS) return Number.POSITIVE_INFINITY;
        await sleep(POLL_MS);
      }
    };
    const first = await statusOf(own, accessToken, "GET", "/auth/me");
    delays.own.push(first === 401 ? 0 : Number.POSITIVE_INFINITY);
    delays.others.push(...(await Promise.all(rest.map(untilRefused))));
  }
  await Promise.all(pools.map((pool) => pool.close()));
  return delays;
}
