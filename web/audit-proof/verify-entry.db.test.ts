import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { toWireEntry } from "#audit-service/entries/entry-rpc.ts";
import { getEntry } from "#audit-service/query/get-entry.ts";
import { toAuditEntry } from "#gateway/admin/audit-entry-answer.ts";
import {
  ORIGIN,
  openTestLog,
  readableLog,
  signer,
  type TestLog,
} from "#tests/support/system/audit-sequencer.ts";
import type { ProofProblem } from "./bytes.ts";
import { type EntryProof, type ShownEntry, verifyEntry } from "./verify-entry.ts";

const SIZE = 300;
const { verifierKey } = signer;

let log: TestLog;
beforeAll(async () => {
  log = await openTestLog();
  const sequencer = log.sequencer();
  await log.record(SIZE - 2, { reason: "naïve – “ü” \u{1f511}" });
  await log.record(1, { actor: { userId: "", role: "", sessionId: "", claimedEmail: "ada@example.com" } });
  await log.record(1, { kind: "intent", outcome: "", httpStatus: 0, latencyUs: 0, errorCode: "" });
  await sequencer.catchUp();
});
afterAll(() => log.close());

/** As `GET /admin/audit/:id` answers it. */
async function answer(sequence: number): Promise<{ entry: ShownEntry; proof: EntryProof }> {
  const found = await getEntry([readableLog(log.database.sql)], { id: "", sequence, log: 0 });
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
  const shown = JSON.parse(JSON.stringify(toAuditEntry(toWireEntry(found.entry)))) as ShownEntry;
  const { leaf, covered } = found.proof ?? {};
  const proof = {
    leafData: leaf?.data ?? "",
    leafHash: base64(leaf?.hash ?? Buffer.alloc(0)),
    inclusionProof: covered?.proof.map(base64) ?? [],
    checkpoint: covered?.checkpoint ?? "",
    noted: null,
  };
  return { entry: shown, proof };
}

test("what the gateway answers proves every entry, with WebCrypto alone", async () => {
  for (const sequence of [1, 2, 3, 4, 128, 255, 256, 257, 299, SIZE]) {
    const { entry, proof } = await answer(sequence);
    const verdict = await verifyEntry(entry, proof, verifierKey);
    expect(verdict).toMatchObject({
      isProven: true,
      checkpoint: { size: SIZE },
      leaf: { sequence, id: entry.id, log: 0 },
      head: { size: SIZE, note: proof.checkpoint },
    });
  }
});

const swapped = (text: string) => (text.startsWith("A") ? `B${text.slice(1)}` : `A${text.slice(1)}`);
type Change = (given: { entry: ShownEntry; proof: EntryProof }) => {
  entry?: object;
  proof?: object;
  key?: string;
};

test.each<[string, ProofProblem, Change]>([
  ["another action is shown", "entry", () => ({ entry: { action: "payments.delete" } })],
  ["another actor is shown", "entry", ({ entry }) => ({ entry: { actor: { ...entry.actor, userId: "u" } } })],
  ["a member that the log does not know is shown", "entry", () => ({ entry: { approved: true } })],
  [
    "the leaf data was changed",
    "leaf_hash",
    ({ proof }) => ({ proof: { leafData: proof.leafData.replace("POST", "PUT!") } }),
  ],
  [
    "the leaf's hash is another",
    "leaf_hash",
    ({ proof }) => ({ proof: { leafHash: swapped(proof.leafHash) } }),
  ],
  ["a member of the proof is missing", "form", () => ({ proof: { inclusionProof: undefined } })],
  ["a hash of the proof is no text", "form", () => ({ proof: { inclusionProof: [7] } })],
  ["the entry names no log", "form", () => ({ entry: { log: undefined } })],
  ["the entry names another log", "signature", () => ({ entry: { log: 1 } })],
  ["the actor is no object", "form", () => ({ entry: { actor: null } })],
  ["the leaf's hash is short", "form", () => ({ proof: { leafHash: "AAAA" } })],
  [
    "a hash of the proof was changed",
    "root",
    ({ proof }) => ({
      proof: { inclusionProof: [swapped(proof.inclusionProof[0] ?? ""), ...proof.inclusionProof.slice(1)] },
    }),
  ],
  ["the proof is cut", "root", ({ proof }) => ({ proof: { inclusionProof: proof.inclusionProof.slice(1) } })],
  [
    "the proof is too long",
    "root",
    ({ proof }) => ({ proof: { inclusionProof: [...proof.inclusionProof, proof.leafHash] } }),
  ],
  [
    "the checkpoint's size was changed",
    "signature",
    ({ proof }) => ({ proof: { checkpoint: proof.checkpoint.replace(`\n${SIZE}\n`, `\n${SIZE + 1}\n`) } }),
  ],
  [
    "the checkpoint is not signed",
    "form",
    ({ proof }) => ({ proof: { checkpoint: proof.checkpoint.split("\n\n")[0] } }),
  ],
  [
    "the key's id does not fit it",
    "form",
    () => ({ key: verifierKey.replace(/\+[0-9a-f]{8}\+/, "+00000000+") }),
  ],
  ["the key is of another log", "form", () => ({ key: `other${verifierKey}` })],
])("not proven if %s", async (_what, problem, change) => {
  const given = await answer(100);
  const { entry = {}, proof = {}, key = verifierKey } = change(given);
  const verdict = await verifyEntry({ ...given.entry, ...entry }, { ...given.proof, ...proof }, key);
  expect(verdict).toEqual({ isProven: false, problem });
});

test("a log that was signed by another key is not proven by the trusted one", async () => {
  const { x = "" } = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
  const bytes = Buffer.concat([Buffer.of(1), Buffer.from(x, "base64url")]);
  const hash = await crypto.subtle.digest("SHA-256", Buffer.concat([Buffer.from(`${ORIGIN}\n`), bytes]));
  const id = Buffer.from(hash).toString("hex", 0, 4);
  const { entry, proof } = await answer(7);
  const verdict = await verifyEntry(entry, proof, `${ORIGIN}+${id}+${bytes.toString("base64")}`);
  expect(verdict).toEqual({ isProven: false, problem: "signature" });
});

test("the claimed address is not part of the proof, and an erased one breaks nothing", async () => {
  const { entry, proof } = await answer(SIZE - 1);
  expect(entry.actor?.claimedEmail).toBe("ada@example.com");
  for (const actor of [entry.actor, {}])
    expect(await verifyEntry({ ...entry, actor: actor ?? {} }, proof, verifierKey)).toMatchObject({
      isProven: true,
    });
});
