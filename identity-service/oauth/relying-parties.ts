import type { Logger } from "../../service-kit/logger.ts";
import type { RelyingParties } from "./oauth-deps.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";
import { createOutboundHttp } from "./outbound-http.ts";
import { createRelyingParty, reasonOf } from "./relying-party.ts";

/** Separate connections, so that a slow provider does not affect others. */
export function createRelyingParties(
  settings: readonly ProviderSettings[],
  options: { publicOrigin: string; nowMs: () => number; logger: Logger },
): { parties: RelyingParties; refreshAll(): Promise<void>; close(): Promise<void> } {
  const { logger } = options;
  const made = settings.map((own) => {
    const http = createOutboundHttp({ network: own.network });
    return { http, party: createRelyingParty({ settings: own, http, ...options }) };
  });
  return {
    parties: new Map(made.map(({ party }) => [party.name, party])),
    /** Never throws. */
    async refreshAll() {
      const one = ({ party }: (typeof made)[number]) =>
        party.refresh().catch((error: unknown) => {
          logger.warn({ provider: party.name, reason: reasonOf(error) }, "discovery of a provider failed");
        });
      await Promise.all(made.map(one));
    },
    async close() {
      await Promise.all(made.map(({ http }) => http.close()));
    },
  };
}
