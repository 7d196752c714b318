import { dirname } from "node:path";
import { ConfigError } from "#kit/config/config.ts";
import { createChangeReader, watchTextFile } from "#kit/config/watch-text-file.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { Repetition } from "#kit/telemetry/repeat.ts";
import { oauthConfigProblems, type ProvidersFile, withSecretMarks } from "./oauth-config.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";
import { parseProvidersFile } from "./oauth-providers-file.ts";
import type { RelyingPartyTable } from "./relying-parties.ts";

/** A change is in force within a second. */
const LOOK_EVERY_MS = 500;

export interface ProvidersWatchOptions {
  file: ProvidersFile;
  table: Pick<RelyingPartyTable, "replace">;
  publicOrigin: string;
  returnTo: readonly string[];
  logger: Logger;
  metrics: Metrics;
  lookEveryMs?: number;
}

/** Ignores invalid files. */
export function watchProvidersFile(options: ProvidersWatchOptions): Repetition {
  const { file, table, logger, metrics } = options;
  const reloads = metrics.counter(
    "gatehouse_providers_reloads_total",
    "Changes of the providers file, or of a secret that it names, by result.",
    ["result"],
  );
  const refused = metrics.gauge(
    "gatehouse_providers_file_refused",
    "1 while the providers file cannot be used and an earlier one is in force.",
  );
  refused.set(0);
  const folder = dirname(file.path);
  const readText = createChangeReader();
  return watchTextFile({
    path: file.path,
    text: file.marked,
    what: "providers file",
    read: async (path) => withSecretMarks(await readText(path), folder),
    take(text) {
      const providers = parseProvidersFile(text, folder);
      refuseUnfitting(providers, options);
      logPlainHttp(providers, logger);
      table.replace(providers);
    },
    onLook: (result) => {
      reloads.inc({ result });
      refused.set(result === "refused" ? 1 : 0);
    },
    lookEveryMs: options.lookEveryMs ?? LOOK_EVERY_MS,
    logger,
  });
}

export function logPlainHttp(providers: readonly ProviderSettings[], logger: Logger): void {
  for (const { name, network } of providers) {
    if (network === "loopback")
      logger.warn({ provider: name }, "an identity provider is called over plain HTTP");
  }
}

/** @throws {ConfigError} as a start would. */
function refuseUnfitting(
  providers: readonly ProviderSettings[],
  { file, publicOrigin, returnTo }: ProvidersWatchOptions,
): void {
  const problems = oauthConfigProblems({
    OAUTH_PROVIDERS_FILE: { ...file, providers },
    OAUTH_RETURN_TO: returnTo.length === 0 ? undefined : [...returnTo],
    PUBLIC_ORIGIN: publicOrigin,
  });
  if (problems.length === 0) return;
  throw new ConfigError(problems.map(({ key, message }) => `${key}: ${message}`).join("\n"));
}
