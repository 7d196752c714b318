import { createHmac, timingSafeEqual } from "node:crypto";

/** Order of pages: newest first, those of one time by log, then by position. */
export interface PageEnd {
  occurredAt: Date;
  log: number;
  position: bigint;
}

const VERSION = 1;
const BODY_BYTES = 18;
const TAG_BYTES = 16;

export function encodeCursor(key: Buffer, { occurredAt, log, position }: PageEnd): string {
  const body = Buffer.alloc(BODY_BYTES);
  body.writeUInt8(VERSION);
  body.writeBigInt64BE(BigInt(occurredAt.getTime()), 1);
  body.writeUInt8(log, 9);
  body.writeBigInt64BE(position, 10);
  return Buffer.concat([body, tagOf(key, body)]).toString("base64url");
}

/** Returns undefined for a forged cursor. */
export function decodeCursor(key: Buffer, cursor: string): PageEnd | undefined {
  const bytes = Buffer.from(cursor, "base64url");
  // Node ignores invalid characters, so the spelling must be canonical.
  if (bytes.length !== BODY_BYTES + TAG_BYTES || bytes.toString("base64url") !== cursor) return undefined;
  const body = bytes.subarray(0, BODY_BYTES);
  if (!timingSafeEqual(tagOf(key, body), bytes.subarray(BODY_BYTES)) || body[0] !== VERSION) return undefined;
  return {
    occurredAt: new Date(Number(body.readBigInt64BE(1))),
    log: body.readUInt8(9),
    position: body.readBigInt64BE(10),
  };
}

function tagOf(key: Buffer, body: Buffer): Buffer {
  return createHmac("sha256", key).update(body).digest().subarray(0, TAG_BYTES);
}
