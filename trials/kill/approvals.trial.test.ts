import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { generateSync } from "otplib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import { type Answer, type ApiClient, apiClient } from "#tests/support/people/api-client.ts";
import { seededRandom } from "#tests/support/system/crash-clients.ts";
import {
  type CrashingSystem,
  type PartName,
  startCrashingSystem,
} from "#tests/support/system/crashing-system.ts";

/** Each kills all victims once, among the payments of two users. */
const ROUNDS = Number(process.env.KILL_ROUNDS ?? 1);
const SEED = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000);
const VICTIMS: readonly PartName[] = ["gateway", "identity-service", "postgres"];
const USERS_AT_A_KILL = 2;
/** With recovery codes, because a TOTP code works once in 30 s. */
const PAYMENTS_PER_USER = 5;
const RECOVERY_CODES = 10;
const PARALLEL_USES = 3;
const PATIENCE_MS = 60_000;
const random = seededRandom(SEED);

interface Payer {
  userId: string;
  token: string;
  codes: string[];
}

interface Payment {
  reference: string;
  /** Undefined: nothing of it may pass twice. */
  key: string | undefined;
  /** A code was sent: from now on it may pass. */
  isApproved: boolean;
  answers: string[];
}

interface Received {
  reference: string;
  key: string | undefined;
  approvalId: string;
  digest: string;
  wasApproved: boolean;
}

const payments = new Map<string, Payment>();
const received: Received[] = [];
/** Outlives every crash. */
const upstream = createServer(async (request, response) => {
  const { reference } = JSON.parse(await text(request)) as { reference: string };
  const { "idempotency-key": key, "x-approval-id": id, "x-approval-digest": digest } = request.headers;
  const wasApproved = payments.get(reference)?.isApproved === true;
  received.push({
    reference,
    key: key?.toString(),
    approvalId: String(id),
    digest: String(digest),
    wasApproved,
  });
  response.writeHead(201, { "content-type": "application/json" }).end("{}");
});

let system: CrashingSystem;
let api: ApiClient;
const payers: Payer[] = [];

beforeAll(
  async () => {
    process.stdout.write(`approvals-kill: seed ${SEED}, ${ROUNDS} rounds (KILL_SEED, KILL_ROUNDS)\n`);
    upstream.listen(0, "127.0.0.1");
    await once(upstream, "listening");
    const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
    system = await startCrashingSystem();
    await system.kill("gateway");
    await writeFile(join(system.home, "routes.yaml"), routes(origin));
    await system.start("gateway");
    api = apiClient(system.url);
    for (let count = ROUNDS * VICTIMS.length * USERS_AT_A_KILL; count > 0; count -= 1)
      payers.push(await newPayer());
  },
  120_000 + ROUNDS * 30_000,
);

afterAll(async () => {
  await system?.remove();
  upstream.closeAllConnections();
  upstream.close();
});

function routes(origin: string): string {
  return `routes:
  - prefix: /pay
    upstream: ${origin}
    methods:
      POST: { roles: [USER], action: pay.create, approval: { fields: [/amount, /reference] } }
`;
}

async function newPayer(): Promise<Payer> {
  const user = await api.newUser();
  await using database = await databaseOfSystem(system, "identity");
  await database.sql`
    update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
    where id = ${user.user.id}`;
  const token = user.accessToken;
  const { body } = await api.post("/auth/mfa/setup", { password: user.password }, { token });
  const code = generateSync({ secret: body.data.secret });
  const enabled = await api.post("/auth/mfa/enable", { code }, { token });
  expect(enabled.status).toBe(200);
  return { userId: user.user.id, token, codes: enabled.body.data.recoveryCodes.slice(0, PAYMENTS_PER_USER) };
}

/** Repeats what was not answered, or with 5xx. */
async function answered(call: () => Promise<Answer>): Promise<Answer> {
  for (const endMs = Date.now() + PATIENCE_MS; ; await sleep(50)) {
    const answer = await call().catch(() => undefined);
    if (answer !== undefined && answer.status < 500) return answer;
    if (Date.now() > endMs) throw new Error(`no answer in time: ${answer?.status}`);
  }
}

async function payAll({ token, codes }: Payer): Promise<void> {
  const impatient = apiClient(system.url, { isPatient: false });
  for (const code of codes) {
    const key = random() < 0.5 ? randomUUID() : undefined;
    const payment: Payment = { reference: randomUUID(), key, isApproved: false, answers: [] };
    payments.set(payment.reference, payment);
    const body = { amount: 12_500, reference: payment.reference };
    const headers = key === undefined ? {} : { "idempotency-key": key };
    const asked = await answered(() => impatient.post("/pay", body, { token, headers }));
    expect(asked.body.error.code).toBe("approval_required");
    const approval = asked.body.error.details.approval.token;
    const use = async (): Promise<void> => {
      const answer = await answered(() =>
        impatient.post("/pay", body, { token, headers: { ...headers, "gatehouse-approval": approval } }),
      );
      payment.answers.push(`${answer.status} ${answer.body.error?.code ?? "ok"}`);
    };
    const early = use();
    if (random() < 0.5) await early;
    payment.isApproved = true;
    const given = await answered(() =>
      impatient.post("/auth/approvals/verify", { token: approval, code }, { token }),
    );
    // `approval_used`: it was given, and the answer was lost.
    expect([200, 403]).toContain(given.status);
    await Promise.all([early, ...Array.from({ length: PARALLEL_USES }, use)]);
  }
}

test(
  "killed at any moment, a payment passes neither twice nor unapproved, and no code gives two approvals",
  async () => {
    for (let kill = 0; kill < ROUNDS * VICTIMS.length; kill += 1) {
      const victim = VICTIMS[kill % VICTIMS.length] ?? "gateway";
      const before = received.length;
      const from = kill * USERS_AT_A_KILL;
      const paying = Promise.all(payers.slice(from, from + USERS_AT_A_KILL).map(payAll));
      await Promise.race([
        expect.poll(() => received.length, { timeout: PATIENCE_MS }).toBeGreaterThan(before),
        paying,
      ]);
      // A random moment: there is no condition to wait for.
      await sleep(random() * 300);
      await system.kill(victim);
      await system.start(victim);
      await paying;
    }

    await using database = await databaseOfSystem(system, "identity");
    const given = await database.sql<
      { id: string; user_id: string; digest: Buffer; transaction_text: string }[]
    >`
    select id, user_id, digest, transaction_text from approvals where given_at is not null`;
    const approvals = new Map(given.map((row) => [row.id, row]));
    const wrong = received.filter(({ reference, approvalId, digest, wasApproved }) => {
      const approval = approvals.get(approvalId);
      const isOfApproval =
        approval !== undefined &&
        approval.digest.toString("hex") === digest &&
        createHash("sha256").update(approval.transaction_text).digest("hex") === digest &&
        JSON.parse(approval.transaction_text).fields["/reference"] === reference;
      return !(wasApproved && isOfApproval);
    });
    expect(wrong).toEqual([]);
    const twice = [...payments.values()].filter(({ reference, key }) => {
      const calls = received.filter((call) => call.reference === reference);
      const isOneApproval = new Set(calls.map(({ approvalId }) => approvalId)).size <= 1;
      return !(
        isOneApproval && (key === undefined ? calls.length <= 1 : calls.every((call) => call.key === key))
      );
    });
    expect(twice).toEqual([]);
    const paidTwice = [...payments.values()].filter(
      ({ key, answers }) => key === undefined && answers.filter((answer) => answer === "201 ok").length > 1,
    );
    expect(paidTwice).toEqual([]);
    for (const { userId } of payers) {
      const [left] =
        await database.sql`select count(*)::int as count from recovery_codes where user_id = ${userId}`;
      const count = given.filter((row) => row.user_id === userId).length;
      expect(count).toBe(RECOVERY_CODES - left?.count);
    }

    const paid = new Set(received.map(({ reference }) => reference)).size;
    process.stdout.write(
      `approvals-kill: ${payments.size} payments, ${given.length} approved, ${paid} paid\n`,
    );
    expect(payments.size).toBe(payers.length * PAYMENTS_PER_USER);
    expect(paid).toBeGreaterThan(payments.size / 2);
  },
  60_000 + ROUNDS * 60_000,
);
