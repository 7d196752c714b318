import { randomBytes } from "node:crypto";
import { decrypt, type EncryptionKey, encrypt } from "#kit/values/key-cipher.ts";

/** Of streams alone: `disabled` by the receiver, who does not want to be told later either; `forbidden`: it has lost its right. */
export type PausedReason = "asked" | "failing" | "gone" | "disabled" | "forbidden";

/** A webhook, or a stream of Shared Signals: pushed to its receiver (RFC 8935), or polled by it (RFC 8936). */
type EndpointKind = "webhook" | "push" | "poll";

/** Where events are sent. */
export interface Endpoint {
  /** UUIDv7. */
  id: string;
  kind: EndpointKind;
  /** Of the receiver of a stream. */
  clientId: string | null;
  name: string;
  /** Empty if it is polled. */
  url: string;
  /** Types, or beginnings of types with `*` at their end. */
  types: string[];
  /** The user who answers for it. */
  ownerId: string | null;
  /** Deleted instead of paused. */
  isTemporary: boolean;
  status: "active" | "paused";
  pausedReason: PausedReason | null;
  /** Since when every attempt has failed. */
  failingSince: Date | null;
  formerSecretUntil: Date | null;
  createdAt: Date;
  changedAt: Date;
}

/** Encrypted, as they are stored. */
export interface StoredSecrets {
  secret: Buffer;
  formerSecret: Buffer | null;
  formerSecretUntil: Date | null;
}

/** The first encrypts; all decrypt. */
export type SecretKeys = readonly [EncryptionKey, ...EncryptionKey[]];

const SECRET_BYTES = 32;
/** Standard Webhooks 1.0, symmetric signatures. */
const PREFIX = "whsec_";

export function newSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** The header of a pushed stream, kept as a secret is. */
export const secretOfHeader = (authorization: string) =>
  `${PREFIX}${Buffer.from(authorization).toString("base64")}`;
export const headerIn = (secret: string) => Buffer.from(secret.slice(PREFIX.length), "base64").toString();

/** Bound to its endpoint: a row that was copied to another one is of no use. */
const contextOf = (endpointId: string) => `webhook secret ${endpointId}`;

export function encryptSecret([key]: SecretKeys, secret: string, endpointId: string): Buffer {
  const bytes = Buffer.from(secret.slice(PREFIX.length), "base64");
  return Buffer.concat([Buffer.from(key.id, "hex"), encrypt(key, bytes, contextOf(endpointId))]);
}

const KEY_ID_BYTES = 8;

/** What an event is signed with, the newest first. @throws if the key that encrypted one is not there. */
export function secretsInUse(
  keys: SecretKeys,
  endpointId: string,
  { secret, formerSecret, formerSecretUntil }: StoredSecrets,
  now: Date,
): string[] {
  const hasFormer = formerSecret !== null && formerSecretUntil !== null && formerSecretUntil > now;
  return [secret, ...(hasFormer ? [formerSecret] : [])].map((each) => decryptSecret(keys, each, endpointId));
}

const keyIdOf = (encrypted: Buffer) => encrypted.subarray(0, KEY_ID_BYTES).toString("hex");

function decryptSecret(keys: SecretKeys, encrypted: Buffer, endpointId: string): string {
  const id = keyIdOf(encrypted);
  const key = keys.find((each) => each.id === id);
  if (key === undefined)
    throw new Error(`the key ${id} that encrypted a secret of webhook ${endpointId} is not configured`);
  const bytes = decrypt(key, encrypted.subarray(KEY_ID_BYTES), contextOf(endpointId));
  return `${PREFIX}${bytes.toString("base64")}`;
}

/** With the first key. The same if it has that already. @throws as `secretsInUse`. */
export function renewEncryption(keys: SecretKeys, endpointId: string, encrypted: Buffer): Buffer {
  if (keyIdOf(encrypted) === keys[0].id) return encrypted;
  return encryptSecret(keys, decryptSecret(keys, encrypted, endpointId), endpointId);
}
