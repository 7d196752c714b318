/**
 * Loaded before a service (`--import`): the names in `NAMES_FILE` have the addresses that are there at the time of a
 * look-up, as the DNS of a cluster answers for a service without an address of its own.
 */
import dns from "node:dns";
import { readFileSync } from "node:fs";

const file = process.env.NAMES_FILE ?? "";
const lookUp = dns.promises.lookup;

async function lookUpReplicas(name: string, options: dns.LookupAllOptions) {
  const addresses = (JSON.parse(readFileSync(file, "utf8")) as Record<string, string[]>)[name];
  if (addresses === undefined) return lookUp(name, options);
  if (addresses.length === 0) throw Object.assign(new Error(`${name} has no address`), { code: "ENOTFOUND" });
  return addresses.map((address) => ({ address, family: 4 }));
}

Object.assign(dns.promises, { lookup: lookUpReplicas });
