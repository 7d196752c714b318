import { join } from "node:path";
import { Secret } from "#kit/config/config.ts";
import { isThisHost } from "#kit/values/network-of.ts";
import type { Home } from "./home.ts";
import { errorText, LaunchError } from "./launch-error.ts";
import { readIfPresent, writePrivateFile } from "./private-file.ts";
import type { Settings } from "./settings.ts";

const passwordFileOf = (settings: Settings, home: Home) =>
  settings.GATEHOUSE_REDIS_PASSWORD_FILE ??
  (passwordIn(settings) === "" ? undefined : join(home.secrets, "redis-password"));

function passwordIn({ GATEHOUSE_REDIS_URL: url }: Settings): string {
  return url === undefined ? "" : decodeURIComponent(new URL(url).password);
}

/** What the services that use Redis are given. */
export function redisEnvironment(settings: Settings, home: Home): Record<string, string> {
  if (settings.GATEHOUSE_REDIS_URL === undefined) return {};
  const url = new URL(settings.GATEHOUSE_REDIS_URL);
  url.password = "";
  return {
    REDIS_URL: url.href,
    REDIS_PASSWORD_FILE: passwordFileOf(settings, home) ?? "",
    REDIS_CA_FILE: settings.GATEHOUSE_REDIS_CA_FILE ?? "",
    REDIS_PLAINTEXT: settings.GATEHOUSE_PLAINTEXT,
  };
}

/**
 * The services would start without Redis, so that a wrong address would stay unnoticed.
 * @throws {LaunchError} if it does not answer.
 */
export async function prepareRedis(settings: Settings, home: Home): Promise<void> {
  const { REDIS_URL: url, REDIS_CA_FILE: caFile } = redisEnvironment(settings, home);
  if (url === undefined) return;
  const { protocol, hostname, host } = new URL(url);
  const isSafe = protocol === "rediss:" || isThisHost(hostname);
  if (!isSafe && settings.GATEHOUSE_PLAINTEXT !== "true") {
    throw new LaunchError(
      "GATEHOUSE_REDIS_URL names another host: use rediss://, or set GATEHOUSE_PLAINTEXT=true.",
      { exitCode: 78 },
    );
  }
  const given = passwordIn(settings);
  if (given !== "") await writePrivateFile(join(home.secrets, "redis-password"), `${given}\n`);
  const file = passwordFileOf(settings, home);
  const password = file === undefined ? undefined : (await readIfPresent(file))?.trim();
  const { openRedis } = await import("#kit/redis/redis-connection.ts");
  const redis = openRedis(
    {
      url,
      ...(password !== undefined && { password: new Secret(password) }),
      ...(caFile && { caFile }),
    },
    "npm start",
    undefined,
  );
  let cause: unknown;
  redis.on("error", (error) => {
    cause = error; // That of the promise below only says that the connection is closed.
  });
  try {
    await redis.connect();
    await redis.ping();
  } catch (error) {
    const reason = errorText(cause ?? error).replace(/\.$/, "");
    throw new LaunchError(`Redis at ${host} cannot be used: ${reason}. Check GATEHOUSE_REDIS_URL.`, {
      cause: error,
    });
  } finally {
    redis.disconnect();
  }
}
