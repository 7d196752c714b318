import { type LookupAddress, promises } from "node:dns";

const TIMEOUT_MS = 1_000;
const TRIES = 2;
/** RFC 6761 section 6.3. */
const LOCALHOST: LookupAddress[] = [
  { address: "127.0.0.1", family: 4 },
  { address: "::1", family: 6 },
];

/**
 * Finds the addresses of names that strangers chose, by asking the name servers. The look-up of the operating system takes a
 * thread, of which a process has four, for as long as a name's server is silent: four such names would hold up all others.
 * Unlike it, this one reads no hosts file and adds no search domain.
 *
 * @param open called for each name: a resolver knows the name servers of the moment at which it was made.
 * @returns a function that throws what `node:dns` does.
 */
export function createNameLookup(
  open: () => Pick<promises.Resolver, "resolve4" | "resolve6"> = () =>
    new promises.Resolver({ timeout: TIMEOUT_MS, tries: TRIES }),
): (name: string) => Promise<LookupAddress[]> {
  return async (name) => {
    if (name === "localhost") return LOCALHOST;
    const resolver = open();
    const [v4, v6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = [
      ...(v4.status === "fulfilled" ? v4.value.map((address) => ({ address, family: 4 })) : []),
      ...(v6.status === "fulfilled" ? v6.value.map((address) => ({ address, family: 6 })) : []),
    ];
    if (found.length === 0 && v4.status === "rejected") throw v4.reason;
    return found;
  };
}
