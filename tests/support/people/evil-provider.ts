import type { BrowserContext } from "playwright-core";
import { stringify } from "yaml";
import type { SystemOptions } from "../system/system.ts";
import { type HostileProvider, startHostileProvider } from "./hostile-provider.ts";

const NAME = "evil";
const SECRET = "the client secret of the tests, long enough";

let running: HostileProvider | undefined;

/** A second identity provider beside the demo one, whose name its operator did not choose well. @returns files of the home. */
export async function homeWithEvilProvider(
  displayName: string,
): Promise<NonNullable<SystemOptions["files"]>> {
  const provider = await startHostileProvider();
  running = provider;
  const evil = {
    ...{ name: NAME, displayName, issuer: provider.issuer, clientId: "gatehouse" },
    clientSecretFile: "evil-client-secret",
  };
  return ({ DEMO_PROVIDER_PORT }) => ({
    "evil-client-secret": SECRET,
    "providers.yaml": stringify({
      providers: [
        {
          ...{ name: "demo", displayName: "Demo", issuer: `http://127.0.0.1:${DEMO_PROVIDER_PORT}` },
          ...{ clientId: "gatehouse", clientSecretFile: "secrets/demo-client-secret" },
        },
        evil,
      ],
    }),
  });
}

export function evilProvider(): HostileProvider {
  if (running === undefined) throw new Error("no evil provider was started");
  return running;
}

/** Whoever comes to it from this browser is sent back at once, with a code. @param origin the gateway's. */
export async function sendBack(context: BrowserContext, origin: string): Promise<void> {
  const provider = evilProvider();
  await context.route(`${provider.issuer}/authorize*`, (route) => {
    const { code, state, iss } = provider.authorize(route.request().url());
    const query = new URLSearchParams({ code, state, iss });
    return route.fulfill({
      status: 302,
      headers: { location: `${origin}/auth/${NAME}/callback?${query}` },
    });
  });
}
