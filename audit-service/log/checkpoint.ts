import {
  createHash,
  createPrivateKey,
  createPublicKey,
  hkdfSync,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";

export interface TreeHead {
  size: number;
  root: Buffer;
}

export interface CheckpointSigner {
  readonly origin: string;
  /** C2SP verifier key. */
  readonly verifierKey: string;
  /** The same on every replica. */
  readonly cursorKey: Buffer;
  open(note: string): TreeHead | undefined;
  checkpoint(head: TreeHead, time: Date): string;
  /** `root` covers all leaves up to `last`. */
  removal(range: { first: number; last: number; root: Buffer }, time: Date): string;
}

const ED25519 = 1;
const SPKI_PREFIX_BYTES = 12;

export function parseCheckpointKey(pem: string): KeyObject | undefined {
  if (!pem.startsWith("-----BEGIN PRIVATE KEY-----")) return undefined;
  try {
    const key = createPrivateKey(pem);
    return key.asymmetricKeyType === "ed25519" ? key : undefined;
  } catch {
    return undefined;
  }
}

/** @see https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint, docs/audit-log-format.md */
export function createCheckpointSigner(origin: string, key: KeyObject): CheckpointSigner {
  const verifyKey = createPublicKey(key);
  const publicKey = verifyKey.export({ type: "spki", format: "der" }).subarray(SPKI_PREFIX_BYTES);
  const encodedKey = Buffer.concat([Buffer.of(ED25519), publicKey]);
  const keyId = createHash("sha256").update(`${origin}\n`).update(encodedKey).digest().subarray(0, 4);

  function signed(lines: readonly string[]): string {
    const text = `${lines.join("\n")}\n`;
    const signature = Buffer.concat([keyId, sign(null, Buffer.from(text), key)]);
    return `${text}\n— ${origin} ${signature.toString("base64")}\n`;
  }

  const secret = key.export({ type: "pkcs8", format: "der" });
  return {
    origin,
    verifierKey: `${origin}+${keyId.toString("hex")}+${encodedKey.toString("base64")}`,
    cursorKey: Buffer.from(hkdfSync("sha256", secret, "", "gatehouse audit search cursor", 32)),
    open(note) {
      const head = readCheckpoint(note);
      const [text = "", signature = ""] = note.split(`\n\n— ${origin} `);
      const bytes = Buffer.from(signature, "base64");
      if (head?.origin !== origin || !bytes.subarray(0, keyId.length).equals(keyId)) return undefined;
      const isSigned = verify(null, Buffer.from(`${text}\n`), verifyKey, bytes.subarray(keyId.length));
      return isSigned ? { size: head.size, root: head.root } : undefined;
    },
    checkpoint: ({ size, root }, time) =>
      signed([origin, String(size), root.toString("base64"), `time ${time.toISOString()}`]),
    removal: ({ first, last, root }, time) =>
      signed([
        `${origin}/removal`,
        String(first),
        String(last),
        root.toString("base64"),
        `time ${time.toISOString()}`,
      ]),
  };
}

const CHECKPOINT = /^([^\n]+)\n([1-9]\d{0,15})\n([A-Za-z0-9+/]{43}=)\n/;

function readCheckpoint(note: string): (TreeHead & { origin: string }) | undefined {
  const [, origin, size, root] = CHECKPOINT.exec(note) ?? [];
  if (origin === undefined || size === undefined || root === undefined) return undefined;
  return { origin, size: Number(size), root: Buffer.from(root, "base64") };
}
