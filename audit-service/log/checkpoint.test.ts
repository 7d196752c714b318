import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { expect, test } from "vitest";
import { createCheckpointSigner, parseCheckpointKey } from "./checkpoint.ts";

const ORIGIN = "gatehouse.test/audit";
/** The Ed25519 private key of 32 bytes 0x07. */
const KEY = createPrivateKey({
  key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, 7)]),
  format: "der",
  type: "pkcs8",
});
const PEM = KEY.export({ type: "pkcs8", format: "pem" }) as string;
const signer = createCheckpointSigner(ORIGIN, KEY);
const ROOT = Buffer.alloc(32, 1);
const TIME = new Date("2026-11-21T09:30:00.250Z");
const HEAD = { size: 12, root: ROOT };
const NOTE = signer.checkpoint(HEAD, TIME);

const publicKey = createPublicKey(KEY).export({ format: "jwk" }).x ?? "";
const typedKey = Buffer.concat([Buffer.of(1), Buffer.from(publicKey, "base64url")]);
const keyId = createHash("sha256").update(`${ORIGIN}\n`).update(typedKey).digest().subarray(0, 4);

/** A note with any text, signed as C2SP specifies. */
function signed(text: string, id: Buffer = keyId): string {
  const signature = Buffer.concat([id, sign(null, Buffer.from(text), KEY)]);
  return `${text}\n— ${ORIGIN} ${signature.toString("base64")}\n`;
}

test("a key must be Ed25519 as PEM (PKCS#8)", () => {
  expect(parseCheckpointKey(PEM)?.equals(KEY)).toBe(true);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const others = [
    privateKey.export({ type: "pkcs8", format: "pem" }),
    createPublicKey(KEY).export({ type: "spki", format: "pem" }),
    `# our key\n${PEM}`,
    PEM.slice(0, 60),
    "",
  ];
  for (const text of others) expect(parseCheckpointKey(String(text)), String(text)).toBeUndefined();
});

test("the verifier key contains the origin, the key id and the public key", () => {
  expect(signer.origin).toBe(ORIGIN);
  expect(signer.verifierKey).toBe(`${ORIGIN}+${keyId.toString("hex")}+${typedKey.toString("base64")}`);
});

test("the derivation of the cursor key does not change, because a cursor outlives a release", () => {
  expect(signer.cursorKey.toString("hex")).toBe(
    "28672a3bcee901659b193aad9360a80775c7ec285b27fb7693eb436267215ca4",
  );
});

test("checkpoints and removals are signed notes of their lines", () => {
  const [root, time] = [ROOT.toString("base64"), "time 2026-11-21T09:30:00.250Z"];
  expect(NOTE).toBe(signed(`${ORIGIN}\n12\n${root}\n${time}\n`));
  expect(signer.removal({ first: 3, last: 9, root: ROOT }, TIME)).toBe(
    signed(`${ORIGIN}/removal\n3\n9\n${root}\n${time}\n`),
  );
});

test("a checkpoint signed by this log is opened, with any size and further lines", () => {
  expect(signer.open(NOTE)).toEqual(HEAD);
  const largest = { ...HEAD, size: 10 ** 15 };
  expect(signer.open(signer.checkpoint(largest, TIME))).toEqual(largest);
  const root = ROOT.toString("base64");
  expect(signer.open(signed(`${ORIGIN}\n7\n${root}\n`))).toEqual({ ...HEAD, size: 7 });
});

const root = ROOT.toString("base64");
test.each([
  ["of another origin", createCheckpointSigner("another.test/audit", KEY).checkpoint(HEAD, TIME)],
  ["that names another origin above our signature", signed(`another.test/audit\n12\n${root}\n`)],
  [
    "of another key",
    createCheckpointSigner(ORIGIN, generateKeyPairSync("ed25519").privateKey).checkpoint(HEAD, TIME),
  ],
  ["under another key id", signed(`${ORIGIN}\n12\n${root}\n`, Buffer.alloc(4))],
  ["with another size", NOTE.replace("\n12\n", "\n13\n")],
  ["without a signature", NOTE.slice(0, NOTE.indexOf("—"))],
  ["with the key id alone", `${NOTE.slice(0, NOTE.indexOf("—"))}— ${ORIGIN} ${keyId.toString("base64")}\n`],
  ["that is a removal", signer.removal({ first: 1, last: 2, root: ROOT }, TIME)],
  ["with something before it", signed(`\n${ORIGIN}\n12\n${root}\n`)],
  ["of no entries", signed(`${ORIGIN}\n0\n${root}\n`)],
  ["whose size is no number", signed(`${ORIGIN}\nx\n${root}\n`)],
  ["whose root is too short", signed(`${ORIGIN}\n12\n${root.slice(4)}\n`)],
  ["that is empty", ""],
])("a note %s is refused as a checkpoint", (_name, note) => {
  expect(signer.open(note)).toBeUndefined();
});
