import { createHash } from "node:crypto";
import type { Redis } from "ioredis";

/** Sends the script if Redis does not know its digest. */
export function redisScript(text: string) {
  const sha1 = createHash("sha1").update(text).digest("hex");
  return async (
    redis: Redis,
    keys: readonly string[],
    given: readonly (string | number)[],
  ): Promise<unknown> => {
    try {
      return await redis.evalsha(sha1, keys.length, ...keys, ...given);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return await redis.eval(text, keys.length, ...keys, ...given);
    }
  };
}
