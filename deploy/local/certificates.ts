import { X509Certificate } from "node:crypto";
import { userInfo } from "node:os";
import { join } from "node:path";
import { isServiceName } from "#kit/rpc/rpc-tls.ts";
import {
  CERTIFICATE_LIFE_DAYS,
  createAuthority,
  isSound,
  issueCertificate,
  type Pair,
} from "../certificate-pair.ts";
import { makePrivateDirectory, readIfPresent, writePrivateFile } from "./private-file.ts";

export const IDENTITIES = [
  "gateway",
  "identity-service",
  "token-service",
  "audit-service",
  "event-service",
  "payments-service",
  "envoy",
  "operator",
  "auditor",
] as const;

/** Stands in the certificate: `spiffe://gatehouse/<identity>`, for people with `/<name>`. */
export type Identity = (typeof IDENTITIES)[number];

const PEOPLE: ReadonlySet<string> = new Set(["operator", "auditor"]);
/** With the authority's files. */
const OWN_NAMES: ReadonlySet<string> = new Set([...IDENTITIES, "ca"]);
const MAX_NAME_CHARACTERS = 31;
const DAY_MS = 86_400_000;

/** The user's name in the form of a certificate. */
export function localPerson(name: string = userInfo().username): string {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9._-]/g, "-");
  return plain.replace(/^[^a-z0-9]+/, "").slice(0, MAX_NAME_CHARACTERS) || "local";
}

/** Whether a service beside our own may have it. It is part of the names of files. */
export function isNameForVerifier(name: string): boolean {
  return isServiceName(name) && !OWN_NAMES.has(name);
}

export function certificateFiles(directory: string, name: string) {
  return {
    certificate: join(directory, `${name}.crt`),
    key: join(directory, `${name}.key`),
    authority: join(directory, "ca.crt"),
  };
}

/**
 * Replaces missing or invalid pairs, and those with less than a third of their life left. A broken authority is replaced
 * too, because only processes of the same launcher trust it.
 * @param person for the certificates of operator and auditor. @param verifiers services beside our own.
 * @returns the names of the created pairs.
 */
export async function ensureCertificates(
  directory: string,
  now: Date,
  person: string = localPerson(),
  verifiers: readonly string[] = [],
): Promise<string[]> {
  await makePrivateDirectory(directory);
  const later = (days: number) => new Date(now.getTime() + days * DAY_MS);
  const kept = await soundAuthority(directory, now);
  const authority = kept ?? (await createAuthority(now));
  if (kept === undefined) await writePair(directory, "ca", authority);

  const until = later(CERTIFICATE_LIFE_DAYS.leaf / 3);
  const made = await Promise.all(
    [...IDENTITIES, ...new Set(verifiers.filter(isNameForVerifier))].map(async (name) => {
      const identity = PEOPLE.has(name) ? `${name}/${person}` : name;
      const pair = await readPair(directory, name);
      if (pair && isSound(pair, { identity, authority, from: now, until })) return [];
      await writePair(directory, name, await issueCertificate(authority, identity, now));
      return [name];
    }),
  );
  return [...(kept ? [] : ["ca"]), ...made.flat()];
}

/** Replaces the pair of that name. @returns when it ends, or undefined without an authority that could issue it. */
export async function issueForVerifier(
  directory: string,
  name: string,
  now: Date,
): Promise<Date | undefined> {
  const authority = await soundAuthority(directory, now);
  if (authority === undefined) return undefined;
  const pair = await issueCertificate(authority, name, now);
  await writePair(directory, name, pair);
  return new X509Certificate(pair.certificate).validToDate;
}

async function soundAuthority(directory: string, now: Date): Promise<Pair | undefined> {
  const kept = await readPair(directory, "ca");
  const until = new Date(now.getTime() + CERTIFICATE_LIFE_DAYS.leaf * DAY_MS);
  return kept && isSound(kept, { authority: kept, until }) ? kept : undefined;
}

/** Undefined if a file is missing. */
async function readPair(directory: string, name: string): Promise<Pair | undefined> {
  const files = certificateFiles(directory, name);
  const [certificate, key] = await Promise.all([readIfPresent(files.certificate), readIfPresent(files.key)]);
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}

/** After a crash between the writes the files do not match, and the next start replaces them. */
async function writePair(directory: string, name: string, pair: Pair): Promise<void> {
  const files = certificateFiles(directory, name);
  await writePrivateFile(files.key, pair.key);
  await writePrivateFile(files.certificate, pair.certificate);
}
