import {
  createHash,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";
import type { Sql } from "#kit/database/postgres.ts";
import { noteUse } from "./authenticate-client.ts";
import { findApiKey, type LiveCredential, readApiKeyMark } from "./credential-store.ts";

const API_KEY = /^gh_([0-9a-f]{32})_([A-Za-z0-9_-]{43})$/;
const RANDOM_BYTES = 10;
const MARK_BYTES = 6;

/** Makes and recognises public ids: random, and a mark that nobody else can make. */
export interface ApiKeyIds {
  create(): Promise<string>;
  isOurs(publicId: string): Promise<boolean>;
}

export function createApiKeyIds(sql: Sql): ApiKeyIds {
  let key: Promise<KeyObject> | undefined;
  const markOf = async (random: Buffer) => {
    key ??= readApiKeyMark(sql)
      .then((mark) => createSecretKey(mark))
      .catch((error: unknown) => {
        key = undefined;
        throw error;
      });
    return createHmac("sha256", await key)
      .update(random)
      .digest()
      .subarray(0, MARK_BYTES);
  };
  return {
    async create() {
      const random = randomBytes(RANDOM_BYTES);
      return Buffer.concat([random, await markOf(random)]).toString("hex");
    },
    async isOurs(publicId) {
      const bytes = Buffer.from(publicId, "hex");
      const mark = await markOf(bytes.subarray(0, RANDOM_BYTES));
      return (
        bytes.length === RANDOM_BYTES + MARK_BYTES && timingSafeEqual(bytes.subarray(RANDOM_BYTES), mark)
      );
    },
  };
}

export interface VerifyApiKeyDeps {
  sql: Sql;
  apiKeyIds: ApiKeyIds;
  now: () => Date;
}

/** Undefined for a key that is not live. A made-up key costs an HMAC and no look-up. */
export async function verifyApiKey(
  deps: VerifyApiKeyDeps,
  apiKey: string,
): Promise<LiveCredential | undefined> {
  const [, publicId = "", secret = ""] = API_KEY.exec(apiKey) ?? [];
  if (publicId === "" || !(await deps.apiKeyIds.isOurs(publicId))) return undefined;
  const credential = await findApiKey(deps.sql, publicId);
  const digest = createHash("sha256").update(secret).digest();
  if (credential?.secretHash == null || !timingSafeEqual(credential.secretHash, digest)) return undefined;
  await noteUse(deps, credential);
  return credential;
}
