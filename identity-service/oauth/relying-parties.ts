import type { Logger } from "#kit/telemetry/logger.ts";
import { createOutboundHttp, type OutboundHttp } from "#outbound-http/outbound-http.ts";
import type { RelyingParties } from "./begin-oauth-login.ts";
import type { ClientAuthentication, ProviderSettings } from "./oauth-provider-settings.ts";
import { createRelyingParty, type RelyingParty, reasonOf } from "./relying-party.ts";

interface Options {
  publicOrigin: string;
  nowMs: () => number;
  logger: Logger;
}

interface Made {
  /** With the secret. */
  settings: string;
  http: OutboundHttp;
  party: RelyingParty;
}

/** Separate connections, so that a slow provider does not affect others. */
export class RelyingPartyTable implements RelyingParties {
  readonly #options: Options;
  #made: ReadonlyMap<string, Made> = new Map();

  constructor(settings: readonly ProviderSettings[], options: Options) {
    this.#options = options;
    this.replace(settings);
  }

  get(name: string): RelyingParty | undefined {
    return this.#made.get(name)?.party;
  }

  *values(): IterableIterator<RelyingParty> {
    for (const { party } of this.#made.values()) yield party;
  }

  /** Providers that have not changed keep what was discovered. Requests that have begun end at the former ones. */
  replace(settings: readonly ProviderSettings[]): void {
    const former = this.#made;
    this.#made = new Map(settings.map((own) => [own.name, this.#keptOrMade(own, former.get(own.name))]));
    for (const [name, made] of former) {
      if (this.#made.get(name) !== made) this.#close(made);
    }
    void this.#refresh([...this.#made.values()].filter((made) => former.get(made.party.name) !== made));
  }

  /** Never throws. */
  refreshAll(): Promise<void> {
    return this.#refresh([...this.#made.values()]);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#made.values()].map(({ http }) => http.close()));
  }

  #keptOrMade(own: ProviderSettings, former: Made | undefined): Made {
    const settings = comparable(own);
    if (former?.settings === settings) return former;
    const http = createOutboundHttp({ network: own.network });
    return { settings, http, party: createRelyingParty({ settings: own, http, ...this.#options }) };
  }

  async #refresh(made: readonly Made[]): Promise<void> {
    const { logger } = this.#options;
    const one = ({ party }: Made) =>
      party.refresh().catch((error: unknown) => {
        logger.warn({ provider: party.name, reason: reasonOf(error) }, "discovery of a provider failed");
      });
    await Promise.all(made.map(one));
  }

  #close({ http, party }: Made): void {
    http.close().catch((error: unknown) => {
      this.#options.logger.warn(
        { provider: party.name, reason: reasonOf(error) },
        "closing a provider failed",
      );
    });
  }
}

function comparable(settings: ProviderSettings): string {
  const { clientAuthentication, securityEvents } = settings;
  return JSON.stringify([settings, secretOf(clientAuthentication), securityEvents?.token?.reveal()]);
}

function secretOf(how: ClientAuthentication): string {
  if (how.kind === "none") return "";
  return (how.kind === "apple" ? how.privateKey : how.secret).reveal();
}
