import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Sql } from "#kit/database/postgres.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { type Repetition, repeat } from "#kit/telemetry/repeat.ts";
import { DomainError } from "#kit/values/errors.ts";
import { parseEncryptionKey } from "#kit/values/key-cipher.ts";
import type { SecretKeys } from "../endpoints/endpoint.ts";
import type { LogsInMemory } from "../stream/event.fixture.ts";
import { EventSource } from "../stream/event-source.ts";
import type { AttemptResult, SignSignals } from "./attempt.ts";
import { Couriers } from "./couriers.ts";

interface Received {
  headers: Record<string, string>;
  body: string;
  /** Of the event. */
  id: string;
  sequence: number;
  subject: string;
}

type Answer = (request: Received, response: ServerResponse) => unknown;

/** A receiver of events over HTTP. */
export async function startReceiver() {
  const received: Received[] = [];
  const state: { answer: Answer } = { answer: (_, response) => response.writeHead(204).end() };
  const server = createServer(async (request: IncomingMessage, response) => {
    const body = await text(request);
    const {
      id,
      sequence,
      subject = "",
    } = JSON.parse(body) as { id: string; sequence?: string; subject?: string };
    const one = {
      headers: request.headers as Record<string, string>,
      body,
      id,
      sequence: Number(sequence ?? 0),
      subject,
    };
    received.push(one);
    await state.answer(one, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`,
    received,
    answer(answer: Answer) {
      state.answer = answer;
    },
    /** Answers each with the status. */
    status(code: number) {
      state.answer = (_, response) => response.writeHead(code).end();
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

export function newKey() {
  const key = parseEncryptionKey(randomBytes(32).toString("base64"));
  if (key === undefined) throw new Error("no key");
  return key;
}

const BEAT_MS = 20;

/** One event-service without a process. Once started it reads and beats again and again. */
export function startReplica({ sql, logs, keys }: { sql: Sql; logs: LogsInMemory; keys: SecretKeys }) {
  const logger = createLogger("event-service", "warn", { write: () => undefined });
  const source = "https://auth.example.com";
  const events = new EventSource({ follow: logs.follow, source, logger });
  const attempts: AttemptResult[] = [];
  let aheadMs = 0;
  const tokenService = { isAway: false };
  const clock = { isWrong: false };
  const sign: SignSignals = async (audience, signals) => {
    if (tokenService.isAway) throw new DomainError("service_unavailable");
    return signals.map(({ id, body }) => JSON.stringify({ jti: id, aud: audience, ...JSON.parse(body) }));
  };
  const identityService = { filterReceivers: async (clientIds: readonly string[]) => [...clientIds] };
  const manage = {
    ...{ sql, events, keys, networks: ["loopback"] as const, sign, source, now: () => new Date() },
    filterReceivers: (clientIds: readonly string[]) => identityService.filterReceivers(clientIds),
  };
  const couriers = new Couriers({
    ...manage,
    metrics: { onAttempt: (result) => void attempts.push(result as AttemptResult) },
    assertClock: () => {
      if (clock.isWrong) throw new DomainError("service_unavailable");
    },
    monotonicMs: () => performance.now() + aheadMs,
    random: () => 0.5,
    logger,
  });
  let repetition: Repetition | undefined;
  return {
    manage,
    tokenService,
    clock,
    identityService,
    events,
    couriers,
    attempts,
    async start() {
      const goOn = async () => {
        await Promise.all([events.read(), couriers.beat()]);
      };
      await goOn();
      repetition = repeat("replica", BEAT_MS, goOn, logger);
    },
    /** As if it had died: its leases stay. */
    async freeze() {
      aheadMs = Number.POSITIVE_INFINITY;
      await repetition?.stop();
    },
    async stop() {
      await repetition?.stop();
      await couriers.stop();
    },
  };
}

export type Replica = ReturnType<typeof startReplica>;
