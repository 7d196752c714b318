import type { RedisConfig, Secret } from "../config/config.ts";

// Apart from what uses them: whoever has no Redis need not load its client, which takes 4 MB.

export interface RedisSettings {
  /** Formats are those of `redisConfig`. */
  url: string;
  password?: Secret<string> | undefined;
  caFile?: string | undefined;
  sentinelPassword?: Secret<string> | undefined;
}

export function redisSettings(config: RedisConfig, url: string): RedisSettings {
  return {
    url,
    password: config.REDIS_PASSWORD_FILE,
    caFile: config.REDIS_CA_FILE,
    sentinelPassword: config.REDIS_SENTINEL_PASSWORD_FILE,
  };
}
