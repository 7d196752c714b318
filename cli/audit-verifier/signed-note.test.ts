import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { openCheckpoint, openRemoval } from "./checkpoint.ts";
import { ORIGIN, sampleLog } from "./log.fixture.ts";
import { openNote, parseVerifierKey } from "./signed-note.ts";

const log = sampleLog(3);
const key = parseVerifierKey(log.verifierKey);
const KEYS = [key];
const NOTE = log.sign(["one", "two"]);
const SIGNATURE = NOTE.slice(NOTE.indexOf("—"));
const other = sampleLog(0);
const otherSignature = other.sign(["one", "two"]).split("\n\n")[1] ?? "";

const form = (message: string) => expect.objectContaining({ code: "form", message });
const signature = (message: string) => expect.objectContaining({ code: "signature", message });

/** A verifier key with a correct key id. */
function keyText(name: string, bytes: Buffer): string {
  const id = createHash("sha256").update(`${name}\n`).update(bytes).digest("hex").slice(0, 8);
  return `${name}+${id}+${bytes.toString("base64")}`;
}

test("a verifier key contains the log's name and key", () => {
  expect(key).toMatchObject({ name: ORIGIN, id: log.verifierKey.split("+")[1] });
  expect(key.publicKey.asymmetricKeyType).toBe("ed25519");
});

test.each([
  ["", "is not name+key id+base64 of an Ed25519 key"],
  [` ${log.verifierKey}`, "is not name+key id+base64 of an Ed25519 key"],
  [`${log.verifierKey} `, "is not name+key id+base64 of an Ed25519 key"],
  [`x+${log.verifierKey}`, "is not name+key id+base64 of an Ed25519 key"],
  [keyText(ORIGIN, Buffer.alloc(32, 1)), "is not name+key id+base64 of an Ed25519 key"],
  [keyText(ORIGIN, Buffer.concat([Buffer.of(2), Buffer.alloc(32, 1)])), "is not an Ed25519 key"],
])("%j is refused as a verifier key", (text, problem) => {
  expect(() => parseVerifierKey(text)).toThrow(form(problem));
});

test("a verifier key whose id is that of another key is refused", () => {
  const text = log.verifierKey.replace(`+${key.id}+`, "+00000000+");
  expect(() => parseVerifierKey(text)).toThrow(form(`names the key id 00000000, but its key has ${key.id}`));
});

test("a note with a trusted signature is opened, also with other signatures", () => {
  expect(openNote(NOTE, KEYS)).toEqual(["one", "two"]);
  expect(openNote(`${NOTE.replace(SIGNATURE, "")}${otherSignature}${SIGNATURE}`, KEYS)).toEqual([
    "one",
    "two",
  ]);
  expect(openNote(`${NOTE}${otherSignature}`, [parseVerifierKey(other.verifierKey), key])).toEqual([
    "one",
    "two",
  ]);
  expect(openNote(log.sign(["one", "", "two\u{1f600}"]), KEYS)).toEqual(["one", "", "two\u{1f600}"]);
});

const NO_NOTE = "is not a signed note";
test.each([
  ["without a signature", "one\ntwo\n", NO_NOTE],
  ["without a text", `\n\n${SIGNATURE}`, NO_NOTE],
  ["not ended", NOTE.slice(0, -1), NO_NOTE],
  ["with a lone surrogate", log.sign(["\ud800"]), NO_NOTE],
  ["with a tab", log.sign(["\t"]), NO_NOTE],
  ["with a unit separator", log.sign(["\x1f"]), NO_NOTE],
  ["too long", log.sign(["x".repeat(16_384)]), NO_NOTE],
  ["with more signatures than 16", `${NOTE}${otherSignature.repeat(16)}`, "has too many signatures"],
  ["with no signature line", "one\n\ntwo\n", "has an invalid signature line"],
  ["with something before its signature", NOTE.replace("—", "x—"), "has an invalid signature line"],
  ["with something after it", NOTE.replace(/\n$/, "!\n"), "has an invalid signature line"],
  ["with base64 in another form", `${NOTE}— x AAAAAAB=\n`, "has an invalid signature line"],
  ["with a signature of four bytes", `${NOTE}— x AAAAAA==\n`, "has an invalid signature line"],
])("invalid note: %s", (_name, note, problem) => {
  expect(() => openNote(note, KEYS)).toThrow(form(problem));
});

test("a note at its limits is accepted", () => {
  const frame = log.sign([""]).length;
  const longest = log.sign(["x".repeat(16_384 - frame)]);
  expect(longest).toHaveLength(16_384);
  expect(openNote(longest, KEYS)).toHaveLength(1);
  expect(openNote(`${NOTE}${otherSignature.repeat(15)}`, KEYS)).toHaveLength(2);
  expect(openNote(log.sign(["a b"]), KEYS)).toEqual(["a b"]);
  expect(openNote(log.sign(["a"]), KEYS)).toEqual(["a"]);
  expect(openNote(`${NOTE}— x AAAAAAA=\n`, KEYS)).toHaveLength(2);
});

test("a bad signature of a trusted key is an error, even beside a good one", () => {
  const problem = `has an invalid signature of the key ${key.id}`;
  const elsewhere = log.sign(["three"]).split("\n\n")[1] ?? "";
  const short = `— ${ORIGIN} ${Buffer.concat([Buffer.from(key.id, "hex"), Buffer.alloc(63)]).toString("base64")}\n`;
  for (const bad of [elsewhere, short])
    expect(() => openNote(`${NOTE}${bad}`, KEYS)).toThrow(signature(problem));
});

test("the error for a note without a trusted signature names its keys and the trusted keys", () => {
  const [, otherId] = other.verifierKey.split("+");
  expect(() => openNote(`one\n\n${otherSignature}${otherSignature}`, [key, key])).toThrow(
    signature(
      `is signed by ${ORIGIN} ${otherId}, ${ORIGIN} ${otherId}, not by the trusted key ${ORIGIN} ${key.id}, ${ORIGIN} ${key.id}`,
    ),
  );
  // A four-byte key id is easily forged: the name must match too.
  const renamed = SIGNATURE.replace(ORIGIN, "another.test/audit");
  expect(() => openNote(`one\ntwo\n\n${renamed}`, KEYS)).toThrow(
    signature(`is signed by another.test/audit ${key.id}, not by the trusted key ${ORIGIN} ${key.id}`),
  );
});

const ROOT = log.root(3);
const [, , root = "", time = ""] = log.checkpoint(3).split("\n");

test("checkpoints and removals are read", () => {
  const instant = time.slice("time ".length);
  expect(openCheckpoint(log.checkpoint(3), KEYS)).toEqual({ size: 3, root: ROOT, time: instant });
  expect(openCheckpoint(log.checkpoint(0), KEYS)).toMatchObject({ size: 0 });
  const removal = { firstSequence: 2, lastSequence: 3, root: ROOT, time: instant };
  expect(openRemoval(log.removal(2, 3), KEYS)).toEqual(removal);
  const largest = log.sign([ORIGIN, "9007199254740991", root, time]);
  expect(openCheckpoint(largest, KEYS).size).toBe(Number.MAX_SAFE_INTEGER);
});

test.each([
  [["other", "3", root, time], `has the origin other, not ${ORIGIN}`],
  [[ORIGIN, "3", root, time, "more"], "is not a checkpoint: it has further lines"],
  [[ORIGIN], "has no valid number"],
  [[ORIGIN, "", root, time], "has no valid number"],
  [[ORIGIN, "03", root, time], "has no valid number"],
  [[ORIGIN, "x3", root, time], "has no valid number"],
  [[ORIGIN, "1e3", root, time], "has no valid number"],
  [[ORIGIN, " 3", root, time], "has no valid number"],
  [[ORIGIN, "3 ", root, time], "has no valid number"],
  [[ORIGIN, "9007199254740992", root, time], "has no valid number"],
  [[ORIGIN, "3"], "has no valid root hash"],
  [[ORIGIN, "3", "AAAA", time], "has no valid root hash"],
  [[ORIGIN, "3", `${root.slice(0, -2)}B=`, time], "has no valid root hash"],
  [[ORIGIN, "3", root], "has no valid time"],
  [[ORIGIN, "3", root, `x${time}`], "has no valid time"],
  [[ORIGIN, "3", root, `${time}x`], "has no valid time"],
])("a signed note that is not a checkpoint: %j", (lines, problem) => {
  expect(() => openCheckpoint(log.sign(lines), KEYS)).toThrow(form(problem));
});

test("a removal has its own origin, two numbers, and no further lines", () => {
  const lines = [`${ORIGIN}/removal`, "1", "3", root, time];
  expect(openRemoval(log.sign(lines), KEYS)).toMatchObject({ firstSequence: 1, lastSequence: 3 });
  expect(() => openRemoval(log.sign([...lines, "more"]), KEYS)).toThrow(
    form("is not a removal: it has further lines"),
  );
  expect(() => openRemoval(log.sign(lines.with(0, ORIGIN)), KEYS)).toThrow(
    form(`has the origin ${ORIGIN}, not ${ORIGIN}/removal`),
  );
  expect(() => openRemoval(log.sign(lines.with(2, "x")), KEYS)).toThrow(form("has no valid number"));
});
