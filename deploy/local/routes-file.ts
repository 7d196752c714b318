import { readFile } from "node:fs/promises";
import { isMap, isSeq, parseDocument } from "yaml";
import { writePrivateFile } from "./private-file.ts";

/**
 * Writes the gateway's routes for this machine: `template` with the upstreams moved to the ports in use. Comments stay.
 *
 * @param upstreams URL of the upstream for each prefix to move.
 * @throws if the template has no route with such a prefix.
 */
export async function writeRoutesFile(
  template: string,
  target: string,
  upstreams: Readonly<Record<string, string>>,
): Promise<void> {
  const document = parseDocument(await readFile(template, "utf8"));
  const routes = document.get("routes");
  for (const [prefix, upstream] of Object.entries(upstreams)) {
    const route = isSeq(routes) && routes.items.find((item) => isMap(item) && item.get("prefix") === prefix);
    if (!isMap(route)) throw new Error(`${template} has no route ${prefix}`);
    route.set("upstream", upstream);
  }
  await writePrivateFile(target, document.toString({ lineWidth: 120 }));
}
