import { userInfo } from "node:os";
import { join } from "node:path";
import {
  CERTIFICATE_LIFE_DAYS,
  createAuthority,
  isSound,
  issueCertificate,
  type Pair,
} from "../certificate-pair.ts";
import { makePrivateDirectory, readIfPresent, writePrivateFile } from "./private-file.ts";

/** Who has a certificate: every process that calls or is called, an Envoy to try, and who uses the command line. */
export const IDENTITIES = [
  "gateway",
  "identity-service",
  "token-service",
  "audit-service",
  "payments-service",
  "envoy",
  "operator",
  "auditor",
] as const;

/** One of those who have a certificate; in it as `spiffe://gatehouse/<identity>`, people with their name behind it. */
export type Identity = (typeof IDENTITIES)[number];

const PEOPLE: ReadonlySet<Identity> = new Set(["operator", "auditor"]);
const MAX_NAME_CHARACTERS = 31;
const DAY_MS = 86_400_000;

/** The name of whoever runs this, as a certificate may hold it. */
export function localPerson(name: string = userInfo().username): string {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9._-]/g, "-");
  return plain.replace(/^[^a-z0-9]+/, "").slice(0, MAX_NAME_CHARACTERS) || "local";
}

/** Where the PEM files of an identity are. */
export function certificateFiles(directory: string, name: string) {
  return {
    certificate: join(directory, `${name}.crt`),
    key: join(directory, `${name}.key`),
    authority: join(directory, "ca.crt"),
  };
}

/**
 * Makes sure that a directory (0700) holds a private certificate authority and a pair for every identity (0600), all
 * valid for at least a third of their life from now. What is sound stays; anything else is made anew. That includes a
 * broken authority: only processes which the same launcher starts afterwards trust it, so making another loses nothing,
 * while stopping there would cost the developer their data (`--fresh`) for a key that guards none of it.
 *
 * @param now the time to judge by.
 * @param person the name in the certificates of operator and auditor.
 * @returns the names of what was made, `ca` among them; empty if all was sound.
 */
export async function ensureCertificates(
  directory: string,
  now: Date,
  person: string = localPerson(),
): Promise<string[]> {
  await makePrivateDirectory(directory);
  const later = (days: number) => new Date(now.getTime() + days * DAY_MS);
  const kept = await readPair(directory, "ca");
  const keeps = kept && isSound(kept, { authority: kept, until: later(CERTIFICATE_LIFE_DAYS.leaf) });
  const authority = keeps ? kept : await createAuthority(now);
  if (!keeps) await writePair(directory, "ca", authority);

  const until = later(CERTIFICATE_LIFE_DAYS.leaf / 3);
  const made = await Promise.all(
    IDENTITIES.map(async (name) => {
      const identity = PEOPLE.has(name) ? `${name}/${person}` : name;
      const pair = await readPair(directory, name);
      if (pair && isSound(pair, { identity, authority, from: now, until })) return [];
      await writePair(directory, name, await issueCertificate(authority, identity, now));
      return [name];
    }),
  );
  return [...(keeps ? [] : ["ca"]), ...made.flat()];
}

/** Undefined if one of the files is missing. A folder in its place, or a file we may not read, is thrown. */
async function readPair(directory: string, name: string): Promise<Pair | undefined> {
  const files = certificateFiles(directory, name);
  const [certificate, key] = await Promise.all([readIfPresent(files.certificate), readIfPresent(files.key)]);
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}

/** Two files cannot change at once: torn in between, they do not match and are made anew at the next start. */
async function writePair(directory: string, name: string, pair: Pair): Promise<void> {
  const files = certificateFiles(directory, name);
  await writePrivateFile(files.key, pair.key);
  await writePrivateFile(files.certificate, pair.certificate);
}
