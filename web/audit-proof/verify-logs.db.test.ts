import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { store } from "#audit-service/entries/entry.fixture.ts";
import type { Entry, LogEntry } from "#audit-service/entries/entry.ts";
import { toWireEntry } from "#audit-service/entries/entry-rpc.ts";
import { selectProvenEntries } from "#audit-service/entries/entry-store.ts";
import { createCheckpointSigner } from "#audit-service/log/checkpoint.ts";
import { selectLastCheckpoint } from "#audit-service/log/checkpoint-store.ts";
import { leafData } from "#audit-service/log/leaf.ts";
import { proveInclusion } from "#audit-service/query/prove.ts";
import { toAuditEntry } from "#gateway/admin/audit-entry-answer.ts";
import { ORIGIN, openTestLog, signer, type TestLog } from "#tests/support/system/audit-sequencer.ts";
import type { ProofProblem } from "./bytes.ts";
import { type EntryProof, type LeafProof, type ShownEntry, verifyEntry } from "./verify-entry.ts";

const SIZE = 20;
const ORIGIN_1 = `${ORIGIN}/1`;
const { verifierKey } = signer;
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");

let log0: TestLog;
let log1: TestLog;
let head1: { size: number; root: Buffer };

/** Entries of log 0 that say something of log 1. Only the first is what audit-service writes. */
const NOTES = {
  good: {},
  "another root": { reason: `${SIZE} ${base64(Buffer.alloc(32))}` },
  "another size": { reason: () => `${SIZE - 1} ${base64(head1.root)}` },
  "another log's origin": { resource: `${ORIGIN}/2` },
  "another action": { action: "audit.exported" },
  "another producer": { producer: "gateway" },
} as const;
type NoteName = keyof typeof NOTES;
const sequenceOf = (name: NoteName) => 4 + Object.keys(NOTES).indexOf(name);

async function note(changes: Record<string, string | (() => string)>): Promise<void> {
  const given = Object.entries(changes).map(([name, value]) => [
    name,
    typeof value === "string" ? value : value(),
  ]);
  const { producer = "audit-service", ...said } = Object.fromEntries(given) as Partial<LogEntry>;
  const noted: Partial<Entry> = {
    kind: "event",
    action: "audit.checkpoint_noted",
    resource: ORIGIN_1,
    reason: `${head1.size} ${base64(head1.root)}`,
    outcome: "success",
    ...said,
  };
  const { origin, entry } = log0.nextEntry(noted);
  await store(log0.database.sql, [{ entry, origin: { ...origin, producerName: producer } }]);
}

beforeAll(async () => {
  [log0, log1] = await Promise.all([openTestLog(), openTestLog()]);
  await log1.record(SIZE);
  await log1.sequencer({ origin: ORIGIN_1 }).catchUp();
  const { note: signed } = await proofIn(log1, 1);
  const [, size, root = ""] = signed.split("\n");
  head1 = { size: Number(size), root: Buffer.from(root, "base64") };
  await log0.record(3);
  for (const changes of Object.values(NOTES)) await note(changes);
  await log0.record(2);
  await log0.sequencer().catchUp();
});
afterAll(() => Promise.all([log0.close(), log1.close()]));

async function proofIn(log: TestLog, sequence: number) {
  const { sql } = log.database;
  const [proven] = await selectProvenEntries(sql, { first: sequence, last: sequence });
  const checkpoint = await selectLastCheckpoint(sql, log === log0 ? ORIGIN : ORIGIN_1);
  if (proven === undefined || checkpoint === undefined) throw new Error(`no proof of ${sequence}`);
  const { entry } = proven;
  const { proof, leafHash } = await proveInclusion(sql, sequence, checkpoint.size);
  const leafProof: LeafProof = {
    leafData: leafData(entry),
    leafHash: base64(leafHash),
    inclusionProof: proof.map(base64),
    checkpoint: checkpoint.note,
  };
  return { entry, leafProof, note: checkpoint.note };
}

/** As `GET /admin/audit/:id` answers for an entry of log 1. */
async function answer(sequence: number, noted: NoteName = "good") {
  const { entry, leafProof } = await proofIn(log1, sequence);
  const placed = { ...entry, log: 1 };
  const shown = JSON.parse(JSON.stringify(toAuditEntry(toWireEntry(placed)))) as ShownEntry;
  const ofLog0 = (await proofIn(log0, sequenceOf(noted))).leafProof;
  return { shown, proof: { ...leafProof, noted: ofLog0 } };
}

test("every entry of another log is proven by the head of log 0, which commits to that log", async () => {
  for (let sequence = 1; sequence <= SIZE; sequence += 1) {
    const { shown, proof } = await answer(sequence);
    expect(await verifyEntry(shown, proof, verifierKey)).toMatchObject({
      isProven: true,
      leaf: { sequence, log: 1 },
      checkpoint: { origin: ORIGIN_1, size: SIZE },
      head: { origin: ORIGIN, size: 11, note: proof.noted.checkpoint },
    });
  }
});

test("while log 0 does not commit to it, an entry is proven in its own log, and by no head", async () => {
  const { shown, proof } = await answer(7);
  const verdict = await verifyEntry(shown, { ...proof, noted: null }, verifierKey);
  expect(verdict).toMatchObject({ isProven: true, checkpoint: { origin: ORIGIN_1, size: SIZE } });
  expect(verdict).not.toHaveProperty("head");
});

test.each(Object.keys(NOTES).filter((name) => name !== "good") as NoteName[])(
  "log 0 does not commit to a log by an entry with %s",
  async (name) => {
    const { shown, proof } = await answer(7, name);
    expect(await verifyEntry(shown, proof, verifierKey)).toEqual({ isProven: false, problem: "noted" });
  },
);

const { privateKey } = generateKeyPairSync("ed25519");
type Given = { noted: LeafProof } & LeafProof;

test.each<[string, ProofProblem, (proof: Given) => Partial<EntryProof> | Promise<Partial<EntryProof>>]>([
  [
    "another key has signed the log",
    "signature",
    () => ({ checkpoint: createCheckpointSigner(ORIGIN_1, privateKey).checkpoint(head1, new Date()) }),
  ],
  [
    "the log's checkpoint has the name of log 0",
    "signature",
    () => ({ checkpoint: signer.checkpoint(head1, new Date()) }),
  ],
  [
    "another key has signed log 0",
    "signature",
    ({ noted }) => {
      const [, size, root = ""] = noted.checkpoint.split("\n");
      const head = { size: Number(size), root: Buffer.from(root, "base64") };
      const checkpoint = createCheckpointSigner(ORIGIN, privateKey).checkpoint(head, new Date());
      return { noted: { ...noted, checkpoint } };
    },
  ],
  ["the log commits to itself", "signature", ({ noted: _of0, ...proof }) => ({ noted: proof })],
  [
    "the entry of log 0 was changed",
    "leaf_hash",
    ({ noted }) => ({ noted: { ...noted, leafData: noted.leafData.replace("/1", "/2") } }),
  ],
  [
    "the entry of log 0 is not in its tree",
    "root",
    ({ noted }) => ({ noted: { ...noted, inclusionProof: noted.inclusionProof.slice(1) } }),
  ],
  ["the entry of log 0 has no proof", "form", ({ noted }) => ({ noted: { ...noted, leafHash: "" } })],
])("not proven if %s", async (_what, problem, change) => {
  const { shown, proof } = await answer(7);
  const verdict = await verifyEntry(shown, { ...proof, ...(await change(proof)) }, verifierKey);
  expect(verdict).toEqual({ isProven: false, problem });
});

test.each([
  ["log 0", 0],
  ["a further log", 2],
  ["a log that there cannot be", 256],
])("an entry of log 1 is not proven in %s", async (_what, log) => {
  const { shown, proof } = await answer(7);
  const problem = log === 256 ? "form" : "signature";
  expect(await verifyEntry({ ...shown, log }, proof, verifierKey)).toEqual({ isProven: false, problem });
});
