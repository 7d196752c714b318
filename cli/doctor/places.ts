import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { splitAddress } from "#kit/config/config.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";

/** One of the places behind an address. */
export interface Place {
  host: string;
  port: number;
  /** Shown to people. */
  name: string;
}

const LOOKUP_TIMEOUT_MS = 3_000;
const MAX_PLACES = 20;

/** A name may stand for several replicas. @throws errors of the name service. */
export async function resolvePlaces(address: string): Promise<Place[]> {
  const { host, port } = splitAddress(address);
  if (isIP(host) !== 0) return [{ host, port, name: address }];
  const found = await withinDeadline(lookup(host, { all: true }), LOOKUP_TIMEOUT_MS);
  // `::1` is where nothing of Gatehouse listens.
  const addresses = host === "localhost" ? found.filter(({ family }) => family === 4) : found;
  const [only, ...others] = addresses;
  if (only !== undefined && others.length === 0) return [{ host: only.address, port, name: address }];
  return addresses.slice(0, MAX_PLACES).map(({ address: ip, family }) => {
    const place = family === 6 ? `[${ip}]:${port}` : `${ip}:${port}`;
    return { host: ip, port, name: `${host} (${place})` };
  });
}
