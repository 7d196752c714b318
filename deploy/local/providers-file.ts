import { stringify } from "yaml";
import { writePrivateFile } from "./private-file.ts";

/** Writes identity-service's providers for this machine: the demo provider. See docs/providers.md for others. */
export async function writeProvidersFile(
  target: string,
  demo: { issuer: string; clientSecretFile: string },
): Promise<void> {
  const { issuer, clientSecretFile } = demo;
  const provider = { name: "demo", displayName: "Demo", issuer, clientId: "gatehouse", clientSecretFile };
  const comment = "# Written by npm start each time. The demo provider, on loopback.\n";
  await writePrivateFile(target, comment + stringify({ providers: [provider] }));
}
