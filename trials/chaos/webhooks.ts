import { setTimeout as sleep } from "node:timers/promises";
import { Webhook as Verifier } from "standardwebhooks";
import type { Receiver } from "#event-service/delivery/replica.fixture.ts";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import { apiClient } from "#tests/support/people/api-client.ts";
import { auditDatabase } from "#tests/support/system/audit-logs.ts";
import { ADMIN, type System } from "#tests/support/system/system.ts";
import type { ReceivedEvent, Webhook } from "./history.ts";

/** So that most faults meet events that are under way. */
const ANSWER_MS = 50;

/** Registers a receiver before the load. @param url where event-service reaches it. */
export async function registerWebhook(
  system: Pick<System, "url" | "home" | "ports">,
  {
    receiver,
    url = receiver.url,
    logs = [0],
  }: { receiver: Receiver; url?: string; logs?: readonly number[] },
): Promise<Webhook> {
  const received: ReceivedEvent[] = [];
  const verifier = Promise.withResolvers<Verifier>();
  receiver.answer(async ({ id, sequence, subject, body, headers }, response) => {
    // Ten minutes of bodies are too much to keep.
    receiver.received.length = 0;
    const isSigned = isGood(await verifier.promise, body, headers);
    received.push({ id, log: (JSON.parse(body) as { log: number }).log, sequence, subject, isSigned });
    await sleep(ANSWER_MS);
    response.writeHead(204).end();
  });
  const api = apiClient(system.url);
  const { accessToken: token } = await api.logIn(ADMIN);
  const made = await api.post("/admin/webhooks", { name: "Trial", url, types: ["gatehouse.*"] }, { token });
  if (made.status !== 201) throw new Error(`webhook: ${made.status} ${JSON.stringify(made.body)}`);
  verifier.resolve(new Verifier((made.body.data as { secret: string }).secret));
  const ends = await Promise.all(logs.map(async (log) => [log, await lastOf(system, log)] as const));
  return { url, after: Object.fromEntries(ends), received };
}

function isGood(verifier: Verifier, body: string, headers: Record<string, string>): boolean {
  try {
    verifier.verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

async function lastOf(system: Pick<System, "home" | "ports">, log: number): Promise<number> {
  await using database = await databaseOfSystem(system, auditDatabase(log));
  const [row] = await database.sql<
    { last: number }[]
  >`select coalesce(max(sequence), 0)::int as last from leaves`;
  return row?.last ?? 0;
}
