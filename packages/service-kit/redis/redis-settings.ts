import type { RedisConfig, Secret } from "../config/config.ts";

// In a file of its own: a process without Redis reads its settings, and does not load the client, which takes 7 MB.

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
