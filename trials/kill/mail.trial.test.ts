import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { untilReady } from "#deploy/local/readiness.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { IdentityServiceClient } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { DATA_ROOT } from "#tests/support/database/postgres-test-server.ts";
import { allMails } from "#tests/support/people/mailbox.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { BARE_ENVIRONMENT } from "#tests/support/system/system.ts";
import { seededRandom } from "../support.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const KILLS = 4;
const CLIENTS = 6;
/** As many as the mail worker hands in at once. */
const MAX_IN_FLIGHT = 20;

let certificates: TestCertificates;
let database: TestDatabase;
let folder: string;
let ports: Record<"rpc" | "health" | "operations" | "smtp" | "mailbox" | "nobody", number>;
const children = new Set<ChildProcess>();

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("identity-service");
  folder = await mkdtemp(join(DATA_ROOT, "gatehouse-mail-kill-"));
  const [rpc, health, operations, smtp, mailbox, nobody] = await Promise.all(
    Array.from({ length: 6 }, () => freePort()),
  );
  ports = { rpc, health, operations, smtp, mailbox, nobody } as typeof ports;
  await writeFile(join(folder, "password"), database.password, { mode: 0o600 });
  for (const name of ["link-key", "mfa-key", "device-key"]) {
    await writeFile(join(folder, name), randomBytes(32).toString("base64"), { mode: 0o600 });
  }
  run("deploy/local/demo/mailbox.ts", {
    SMTP_PORT: String(ports.smtp),
    MAILBOX_PORT: String(ports.mailbox),
    MAIL_DIRECTORY: folder,
  });
  expect(await untilReady(`http://127.0.0.1:${ports.mailbox}/healthz`)).toBeUndefined();
});
afterAll(async () => {
  await Promise.all([...children].map(kill));
  await database.drop();
  await certificates.remove();
  await rm(folder, { recursive: true, force: true });
});

function run(entry: string, environment: Record<string, string>): ChildProcess {
  const env = { ...BARE_ENVIRONMENT, ...environment };
  const child = spawn(process.execPath, [join(ROOT, entry)], { cwd: ROOT, env, stdio: "ignore" });
  children.add(child);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  children.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function startIdentity(): Promise<ChildProcess> {
  const local = (port: number) => `127.0.0.1:${port}`;
  const child = run("identity-service/main.ts", {
    ...certificates.environmentOf("identity-service"),
    LISTEN_ADDRESS: local(ports.rpc),
    HEALTH_ADDRESS: local(ports.health),
    OPERATIONS_ADDRESS: local(ports.operations),
    DATABASE_URL: database.url,
    DATABASE_PASSWORD_FILE: join(folder, "password"),
    // Registrations need neither.
    TOKEN_SERVICE_ADDRESS: local(ports.nobody),
    AUDIT_SERVICE_ADDRESS: local(ports.nobody),
    SMTP_URL: `smtp://${local(ports.smtp)}`,
    MAIL_FROM: "Gatehouse <no-reply@gatehouse.test>",
    PUBLIC_ORIGIN: "http://gatehouse.test",
    LINK_KEY_FILE: join(folder, "link-key"),
    MFA_ENCRYPTION_KEY_FILE: join(folder, "mfa-key"),
    DEVICE_KEY_FILE: join(folder, "device-key"),
  });
  expect(await untilReady(`http://${local(ports.operations)}/readyz`)).toBeUndefined();
  return child;
}

/**
 * Registers accounts in sequence until the signal aborts.
 *
 * @param acknowledged receives the addresses of answered registrations.
 */
async function keepRegistering(name: string, acknowledged: string[], stop: AbortSignal): Promise<void> {
  const client = createRpcClient(IdentityServiceClient, {
    address: `127.0.0.1:${ports.rpc}`,
    service: "identity-service",
    certificate: certificates.of("gateway"),
  });
  for (let index = 0; !stop.aborted; index += 1) {
    const email = `${name}-${index}@example.com`;
    // From nowhere: otherwise all of these would come from one network and soon be over its budget.
    const account = {
      email,
      password: "correct horse battery",
      firstName: "Ada",
      lastName: "Lovelace",
      clientIp: "",
      language: "",
      timeZone: "",
    };
    await callUnary(client, client.register, account, newCallContext({ budgetMs: 2_000 })).then(
      () => acknowledged.push(email),
      () => sleep(20), // the service is gone: not again at once
    );
  }
  client.close();
}

/** Mails that were claimed and not marked: perhaps handed in. Their lease ends here, or they would wait for two minutes. */
async function endLeases(): Promise<string[]> {
  const rows = await database.ownerSql<{ recipient: string }[]>`
    update mail_outbox set next_attempt_at = now()
    where sent_at is null and given_up_at is null and attempts > 0 and next_attempt_at > now()
    returning recipient`;
  return rows.map(({ recipient }) => recipient);
}

test("killed with -9 at any moment, identity-service loses no mail of an answered registration, and sends twice only what was on its way", {
  timeout: 180_000,
}, async () => {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31));
  process.stdout.write(`mail-kill: SEED=${seed}\n`);
  const random = seededRandom(seed);
  const acknowledged: string[] = [];
  /** How often each was on its way at a kill. */
  const inFlight = new Map<string, number>();
  for (let round = 0; round < KILLS; round += 1) {
    const child = await startIdentity();
    const stop = new AbortController();
    const before = acknowledged.length;
    const clients = Array.from({ length: CLIENTS }, (_, index) =>
      keepRegistering(`round${round}-client${index}`, acknowledged, stop.signal),
    );
    await expect.poll(() => acknowledged.length).toBeGreaterThan(before);
    // A random moment: there is no condition to wait for.
    await sleep(random() * 1_000);
    await kill(child);
    stop.abort();
    await Promise.all(clients);
    const leased = await endLeases();
    expect(leased.length).toBeLessThanOrEqual(MAX_IN_FLIGHT);
    for (const recipient of leased) inFlight.set(recipient, (inFlight.get(recipient) ?? 0) + 1);
  }

  const last = await startIdentity();
  const waiting = async () => (await database.ownerSql`select from mail_outbox where sent_at is null`).length;
  await expect.poll(waiting).toBe(0);
  await kill(last);

  const received = new Map<string, number>();
  for (const { to } of await allMails(ports.mailbox)) {
    for (const { address } of to) received.set(address, (received.get(address) ?? 0) + 1);
  }
  const twice = [...received].filter(([, count]) => count > 1);
  process.stdout.write(
    `mail-kill: ${acknowledged.length} answered, ${received.size} mailed, ${inFlight.size} on their way, ${twice.length} twice\n`,
  );
  expect(acknowledged.length).toBeGreaterThanOrEqual(KILLS);
  expect(acknowledged.filter((email) => !received.has(email))).toEqual([]);
  const beyond = [...received].filter(([email, count]) => count > 1 + (inFlight.get(email) ?? 0));
  expect(beyond).toEqual([]);
});
