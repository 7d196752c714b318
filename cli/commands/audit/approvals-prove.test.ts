import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ApprovalEntries, proveApproval } from "../../approval-verifier/approval-proof.ts";
import {
  type ApprovalLine,
  EvidenceWriter,
  type PasskeyEvidence,
} from "../../approval-verifier/evidence-file.ts";
import { ORIGIN, sampleKey, sampleLog, textOf } from "../../audit-verifier/log.fixture.ts";
import type { LoggedEntry } from "../../audit-verifier/logged-entry.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const ID = "019a0000-0000-7000-8000-0000000000a1";
const OTHER_ID = "019a0000-0000-7000-8000-0000000000a2";
const USER = "019a0000-0000-7000-8000-0000000000b1";
const SESSION = "019a0000-0000-7000-8000-0000000000c1";
const RP_ID = "pay.example.com";
const TRANSACTION =
  `{"fields":{"/amount":25000,"/currency":"EUR","/payee":"ACME"},"method":"POST","route":"/payments",` +
  `"session":"${SESSION}","user":"${USER}"}`;

const folder = mkdtempSync(join(tmpdir(), "gatehouse-prove-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sha256 = (...parts: (string | Buffer)[]) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const digest = sha256(TRANSACTION);
const nonce = sha256("a nonce");
const key = sampleKey();

const int = (value: number): Buffer => {
  const [major, argument] = value < 0 ? [0x20, -1 - value] : [0, value];
  if (argument < 24) return Buffer.of(major | argument);
  if (argument < 256) return Buffer.of(major | 24, argument);
  return Buffer.of(major | 25, argument >> 8, argument & 0xff);
};
const byteString = (bytes: Buffer) => {
  const head = int(bytes.length);
  return Buffer.concat([Buffer.of((head[0] ?? 0) | 0x40), head.subarray(1), bytes]);
};
const cose = (members: readonly (readonly [number, number | Buffer])[]) =>
  Buffer.concat([
    Buffer.of(0xa0 | members.length),
    ...members.flatMap(([label, value]) => [
      int(label),
      Buffer.isBuffer(value) ? byteString(value) : int(value),
    ]),
  ]);

interface Passkey {
  publicKey: Buffer;
  sign(data: Buffer): Buffer;
}

function passkeyOf(algorithm: "ES256" | "EdDSA" | "RS256"): Passkey {
  const pair: { publicKey: KeyObject; privateKey: KeyObject } =
    algorithm === "ES256"
      ? generateKeyPairSync("ec", { namedCurve: "P-256" })
      : algorithm === "EdDSA"
        ? generateKeyPairSync("ed25519")
        : generateKeyPairSync("rsa", { modulusLength: 2_048 });
  const jwk = pair.publicKey.export({ format: "jwk" });
  const part = (name: "x" | "y" | "n" | "e") => Buffer.from(String(jwk[name]), "base64url");
  const publicKey = {
    ES256: () =>
      cose([
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, part("x")],
        [-3, part("y")],
      ]),
    EdDSA: () =>
      cose([
        [1, 1],
        [3, -8],
        [-1, 6],
        [-2, part("x")],
      ]),
    RS256: () =>
      cose([
        [1, 3],
        [3, -257],
        [-1, part("n")],
        [-2, part("e")],
      ]),
  }[algorithm]();
  return { publicKey, sign: (data) => sign(algorithm === "EdDSA" ? null : "sha256", data, pair.privateKey) };
}

interface Ceremony {
  rpId: string;
  flags: number;
  challenge: Buffer;
  type: string;
  origin: string;
  more: object;
}

function assertion(passkey: Passkey, change: Partial<Ceremony> = {}): PasskeyEvidence {
  const ceremony: Ceremony = {
    rpId: RP_ID,
    flags: 0x05,
    challenge: sha256(nonce, digest),
    type: "webauthn.get",
    origin: "https://pay.example.com",
    more: { crossOrigin: false },
    ...change,
  };
  const { type, origin, more } = ceremony;
  const challenge = ceremony.challenge.toString("base64url");
  const clientData = Buffer.from(JSON.stringify({ type, challenge, origin, ...more }));
  const authenticatorData = Buffer.concat([sha256(ceremony.rpId), Buffer.of(ceremony.flags, 0, 0, 0, 7)]);
  return {
    authenticatorData: authenticatorData.toString("base64"),
    clientData: clientData.toString("base64"),
    credentialId: sha256("credential").toString("base64"),
    nonce: nonce.toString("base64"),
    passkeyId: "019a0000-0000-7000-8000-0000000000d1",
    publicKey: passkey.publicKey.toString("base64"),
    rpId: RP_ID,
    signature: passkey.sign(Buffer.concat([authenticatorData, sha256(clientData)])).toString("base64"),
  };
}

const codeLine = (change: Partial<ApprovalLine> = {}): ApprovalLine => ({
  type: "approval",
  id: ID,
  transaction: TRANSACTION,
  digest: digest.toString("hex"),
  method: "totp",
  ...change,
});
const passkeyLine = (passkey: PasskeyEvidence): ApprovalLine => codeLine({ method: "passkey", passkey });

function fileOf(...approvals: ApprovalLine[]): string {
  const writer = new EvidenceWriter();
  return writer.head() + writer.lines(approvals) + writer.end();
}

/** What the services record of an approval, between entries of others. */
function logOf(approval: ApprovalLine, change: (entries: Partial<LoggedEntry>[]) => void = () => {}): string {
  const { passkey, method } = approval;
  const reason = `approval ${ID} ${method} ${digest.toString("hex")}`;
  const hash = passkey === undefined ? "" : ` ${sha256(JSON.stringify(passkey)).toString("hex")}`;
  const event = (name: string, text: string): Partial<LoggedEntry> => ({
    kind: "event",
    producer: "identity-service",
    action: `user.approval_${name}`,
    resource: USER,
    outcome: "success",
    reason: text,
  });
  const entries: Partial<LoggedEntry>[] = [
    event("asked", `approval ${ID} - ${digest.toString("hex")}`),
    event("given", `${reason}${hash}`),
    event("used", reason),
    { kind: "outcome", producer: "gateway", outcome: "success", httpStatus: 201, method: "POST", reason },
  ];
  for (const entry of entries)
    entry.actor = { userId: USER, role: "USER", sessionId: SESSION, claimedEmailHash: "" };
  change(entries);
  const log = sampleLog(entries.length + 3, {
    key,
    change: (entry) => {
      Object.assign(entry, entries[entry.sequence - 3], { sequence: entry.sequence });
      if (entry.sequence < 3) entry.userAgent = "curl/8";
    },
    isErased: () => true,
  });
  return textOf(log.export());
}
const verifierKey = sampleLog(1, { key }).verifierKey;

async function prove(approvals: string | Buffer, log: string | Buffer, ...more: string[]) {
  const paths = { approvals: join(folder, "approvals.jsonl"), log: join(folder, "log.jsonl") };
  writeFileSync(paths.approvals, approvals);
  writeFileSync(paths.log, log);
  let out = "";
  const argv = ["approvals", "prove", ID, "--approvals", paths.approvals, "--log", paths.log];
  const code = await run([...argv, "--key", verifierKey, "--json", ...more], COMMANDS, {
    environment: {},
    defaultHome: "/nowhere",
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      out += text;
    },
  });
  const { findings = [], ...rest } = JSON.parse(out);
  return { ...rest, exit: code, codes: findings.map((finding: { code: string }) => finding.code), findings };
}

test("a code: who approved which amount to which payee, when, with which method, and the call", async () => {
  const { exit, result, approval, log } = await prove(fileOf(codeLine()), logOf(codeLine()));
  expect([exit, result, log.result]).toEqual([0, "proven", "proven"]);
  expect(approval).toMatchObject({
    id: ID,
    method: "totp",
    transaction: { user: USER, fields: { "/amount": 25_000, "/currency": "EUR", "/payee": "ACME" } },
    asked: { sequence: 3, occurredAt: expect.stringMatching(/^2026-/) },
    given: { sequence: 4 },
    uses: [{ sequence: 5 }],
    calls: [{ sequence: 6, outcome: "success", httpStatus: 201 }],
  });
});

test("the call is in another log, whose number is beside its sequence", async () => {
  let call: Partial<LoggedEntry> | undefined;
  const zero = logOf(codeLine(), (entries) => {
    [call] = entries.splice(3, 1);
  });
  const one = sampleLog(2, {
    key,
    origin: `${ORIGIN}/1`,
    change: (entry) => entry.sequence === 2 && Object.assign(entry, call),
  });
  const { exit, approval, log } = await prove(fileOf(codeLine()), zero + textOf(one.export()));
  expect([exit, log.logs.length]).toEqual([0, 2]);
  expect(approval).toMatchObject({ uses: [{ log: 0, sequence: 5 }], calls: [{ log: 1, sequence: 2 }] });
});

test.each(["ES256", "EdDSA", "RS256"] as const)(
  "a passkey's signature is verified: %s",
  async (algorithm) => {
    const line = passkeyLine(assertion(passkeyOf(algorithm)));
    const { exit, approval } = await prove(fileOf(line), logOf(line));
    expect(exit).toBe(0);
    expect(approval.signedBy).toMatchObject({ origin: "https://pay.example.com", rpId: RP_ID });
  },
);

const passkey = passkeyOf("ES256");
const another = passkeyOf("ES256");
test.each<[string, PasskeyEvidence]>([
  ["challenge", assertion(passkey, { challenge: sha256(nonce, sha256("another transaction")) })],
  ["challenge", assertion(passkey, { challenge: digest })],
  ["client_data", assertion(passkey, { type: "webauthn.create" })],
  ["origin", assertion(passkey, { origin: "https://pay.example.com.evil.example" })],
  ["origin", assertion(passkey, { origin: "http://pay.example.com" })],
  ["origin", assertion(passkey, { more: { crossOrigin: true } })],
  ["rp_id", assertion(passkey, { rpId: "evil.example" })],
  ["user_verification", assertion(passkey, { flags: 0x01 })],
  ["user_verification", assertion(passkey, { flags: 0x04 })],
  ["signature", { ...assertion(passkey), publicKey: another.publicKey.toString("base64") }],
  ["signature", { ...assertion(passkey), signature: assertion(another).signature }],
  ["public_key", { ...assertion(passkey), publicKey: Buffer.from("a0", "hex").toString("base64") }],
])(
  "an assertion that is wrong in one thing proves nothing, even if the log has it: %s",
  async (code, evidence) => {
    const line = passkeyLine(evidence);
    const { exit, codes } = await prove(fileOf(line), logOf(line));
    expect([exit, codes]).toEqual([65, [code]]);
  },
);

test("origins can be named, and then no other passes", async () => {
  const line = passkeyLine(assertion(passkey, { origin: "android:apk-key-hash:abc" }));
  const proved = (...more: string[]) => prove(fileOf(line), logOf(line), ...more);
  expect((await proved()).codes).toEqual(["origin"]);
  expect((await proved("--origin", "https://pay.example.com")).codes).toEqual(["origin"]);
  expect((await proved("--origin", "android:apk-key-hash:abc")).exit).toBe(0);
});

test("another valid assertion than the one in the log is refused: its key could be anybody's", async () => {
  const { exit, codes } = await prove(
    fileOf(passkeyLine(assertion(another))),
    logOf(passkeyLine(assertion(passkey))),
  );
  expect([exit, codes]).toEqual([65, ["evidence"]]);
});

test.each<[string, string, (entries: Partial<LoggedEntry>[]) => void]>([
  ["never asked", "asked", (entries) => void entries.splice(0, 1)],
  ["never given", "given", (entries) => void entries.splice(1, 1)],
  ["never used", "used", (entries) => void entries.splice(2, 2)],
  ["given twice", "given", (entries) => void entries.push({ ...entries[1] })],
  ["given in another session", "given", ([, given]) => setActor(given, { sessionId: OTHER_ID })],
  ["given by another user", "given", ([, given]) => setActor(given, { userId: OTHER_ID })],
  ["asked for another user", "asked", ([asked]) => Object.assign(asked ?? {}, { resource: OTHER_ID })],
  ["given with another method", "given", (all) => replaceIn(all[1], "totp", "recovery_code")],
  ["used with another digest", "used", (all) => replaceIn(all[2], /.$/, "g")],
  ["called with another digest", "call", (all) => replaceIn(all[3], /.$/, "g")],
  ["called with another method", "call", (all) => Object.assign(all[3] ?? {}, { method: "PUT" })],
  ["called more often than used", "call", (entries) => void entries.push({ ...entries[3] })],
  [
    "given, but recorded by the gateway",
    "given",
    ([, given]) => Object.assign(given ?? {}, { producer: "gateway" }),
  ],
])("what the log contradicts is refused: %s", async (_name, code, change) => {
  const { exit, codes } = await prove(fileOf(codeLine()), logOf(codeLine(), change));
  expect([exit, codes]).toEqual([65, [code]]);
});

function setActor(entry: Partial<LoggedEntry> | undefined, change: Partial<LoggedEntry["actor"]>): void {
  if (entry?.actor) entry.actor = { ...entry.actor, ...change };
}

function replaceIn(entry: Partial<LoggedEntry> | undefined, from: string | RegExp, to: string): void {
  if (entry) entry.reason = entry.reason?.replace(from, to) ?? "";
}

test("a repeated use with its idempotency key is proven and shown; a lost outcome is no contradiction", async () => {
  const repeated = await prove(
    fileOf(codeLine()),
    logOf(codeLine(), (entries) => void entries.push({ ...entries[2] }, { ...entries[3] })),
  );
  expect([repeated.exit, repeated.approval.uses.length, repeated.approval.calls.length]).toEqual([0, 2, 2]);
  const killed = await prove(
    fileOf(codeLine()),
    logOf(codeLine(), (entries) => void entries.splice(3, 1)),
  );
  expect([killed.exit, killed.approval.calls]).toEqual([0, []]);
});

test("a changed byte anywhere in the approvals is refused, also in another approval", async () => {
  const line = passkeyLine(assertion(passkey));
  const file = Buffer.from(fileOf(codeLine({ id: OTHER_ID }), line));
  const log = logOf(line);
  for (let at = 0; at < file.length; at += 11) {
    const changed = Buffer.from(file);
    changed[at] = (changed[at] ?? 0) ^ 1;
    const { exit, findings, error } = await prove(changed, log);
    expect([65, 66], `byte ${at}`).toContain(exit);
    expect(exit === 66 ? error.message : findings[0]?.message, `byte ${at}`).toMatch(/\w/);
  }
});

test("a change of any byte of an approval is refused and named, also if its file is written anew", () => {
  const line = passkeyLine(assertion(passkey));
  const logged = logOf(line)
    .trimEnd()
    .split("\n")
    .map((text) => JSON.parse(text));
  const found: Record<string, Set<string>> = {};
  const forge = (field: string, forged: ApprovalLine) => {
    const entries = new ApprovalEntries(forged.id);
    for (const entry of logged) entries.take(entry);
    const { findings } = proveApproval(forged, entries.found, []);
    expect(findings, field).not.toEqual([]);
    found[field] ??= new Set();
    for (const { code } of findings) found[field].add(code);
  };
  const flipped = (text: string, encoding: "latin1" | "base64", at: number) => {
    const bytes = Buffer.from(text, encoding);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    return bytes.toString(encoding);
  };
  for (const field of ["id", "transaction", "digest", "method"] as const) {
    for (let at = 0; at < line[field].length; at += 1) {
      forge(field, { ...line, [field]: flipped(line[field], "latin1", at) });
    }
  }
  for (const [field, value] of Object.entries(line.passkey ?? {})) {
    const encoding = field === "passkeyId" || field === "rpId" ? "latin1" : "base64";
    for (let at = 0; at < Buffer.from(value, encoding).length; at += 1) {
      const evidence = { ...line.passkey, [field]: flipped(value, encoding, at) };
      forge(field, passkeyLine(evidence as PasskeyEvidence));
    }
  }
  const named = Object.entries(found).map(([field, codes]) => [field, [...codes].sort().join(" ")]);
  expect(Object.fromEntries(named)).toEqual({
    id: "asked given used",
    transaction: "asked call challenge digest form given used",
    digest: "asked call digest given used",
    method: "call form given used",
    authenticatorData: "evidence rp_id signature user_verification",
    clientData: "challenge client_data evidence origin signature",
    credentialId: "evidence",
    nonce: "challenge evidence",
    passkeyId: "evidence",
    publicKey: "evidence public_key",
    rpId: "evidence origin",
    signature: "evidence signature",
  });
});

test("a changed byte anywhere in the log is refused", async () => {
  const file = fileOf(codeLine());
  const log = Buffer.from(logOf(codeLine()));
  for (let at = 0; at < log.length; at += 43) {
    const changed = Buffer.from(log);
    changed[at] = (changed[at] ?? 0) ^ 1;
    const { exit } = await prove(file, changed);
    expect(exit, `byte ${at}`).not.toBe(0);
  }
});

test("a cut file, another file, another approval, and an unproven log are distinguished", async () => {
  const [file, log] = [fileOf(codeLine()), logOf(codeLine())];
  const lines = file.trimEnd().split("\n");
  expect(await prove(`${lines.slice(0, -1).join("\n")}\n`, log)).toMatchObject({ exit: 65, codes: ["form"] });
  expect(await prove(log, log)).toMatchObject({ exit: 66, error: { code: "input" } });
  expect(await prove("", log)).toMatchObject({ exit: 66 });
  expect(await prove(fileOf(codeLine({ id: OTHER_ID })), log)).toMatchObject({
    exit: 1,
    error: { code: "not_found" },
  });
  expect((await prove(fileOf(codeLine(), codeLine()), log)).codes).toEqual(["form"]);
  const unsigned = `${log.trimEnd().split("\n").slice(0, -1).join("\n")}\n`;
  for (const approvals of [file, fileOf(codeLine({ id: OTHER_ID }))])
    expect(await prove(approvals, unsigned)).toMatchObject({ exit: 65, log: { result: "tampered" } });
});
