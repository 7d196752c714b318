import { setTimeout as sleep } from "node:timers/promises";
import { Agent, fetch } from "undici";
import {
  act,
  haunt,
  keepApproving,
  keepForgetting,
  keepProving,
  keepReturning,
  keepSessions,
  leave,
  logIn,
  logOut,
  newUser,
  read,
  rotate,
  type Session,
  type World,
} from "../chaos/clients.ts";
import type { Call } from "../chaos/history.ts";
import type { Fleet, Kill } from "./fleet.ts";

const ANSWER_TIMEOUT_MS = 6_000;
const PAUSE_MS = 30;
const STEPS_OF_SESSION = 30;

const agent = new Agent({ connections: 32 });

/** Clients of all kinds, until the world's signal. @param sessions how many make and end sessions all the time. */
export async function runLoad(world: World, fleet: Fleet, sessions: number): Promise<void> {
  const many = (count: number, client: () => Promise<void>) => Array.from({ length: count }, client);
  await Promise.all([
    ...many(sessions, () => keepSessions(world)),
    ...many(4, () => keepOneSession(world)),
    ...many(4, () => keepVerifying(world, fleet)),
    ...many(2, () => keepApproving(world)),
    ...many(2, () => haunt(world)),
    keepForgetting(world),
    keepProving(world),
    keepReturning(world),
  ]);
}

/** Begins before the first exchange, and must outlive all of them. */
async function keepOneSession(world: World): Promise<void> {
  const user = await newUser(world);
  const session = user && (await logIn(world, user));
  if (session === undefined) throw new Error("a session does not begin");
  while (!world.signal.aborted) {
    if (world.random() < 0.1) await rotate(world, session);
    else await act(world, session);
    await sleep(PAUSE_MS);
  }
}

/** What services ask: introspection over HTTP, and verification by token-client, of both versions. */
async function keepVerifying(world: World, fleet: Fleet): Promise<void> {
  while (!world.signal.aborted) {
    const user = await newUser(world);
    const session = user && (await logIn(world, user));
    if (session === undefined) continue;
    const verify = async () => {
      const places = [() => introspect(world, fleet, session)];
      for (const url of fleet.verifiers) places.push(() => readAt(world, url, session));
      await places[Math.floor(world.random() * places.length)]?.();
    };
    for (let step = 0; step < STEPS_OF_SESSION && !world.signal.aborted; step += 1) {
      if (step % 10 === 9) await rotate(world, session);
      else await verify();
    }
    await logOut(world, session);
    leave(world, session);
    for (let step = 0; step < STEPS_OF_SESSION && !world.signal.aborted; step += 1) await verify();
    await read(world, session);
  }
}

/** A token that is not active is noted as a refused one. */
function introspect(world: World, fleet: Fleet, session: Session): Promise<void> {
  const secret = Buffer.from(`rolling:${fleet.introspectionSecret}`).toString("base64");
  return note(world, session, async () => {
    const response = await fetch(`${fleet.url}/oauth/introspect`, {
      method: "POST",
      dispatcher: agent,
      headers: { authorization: `Basic ${secret}`, "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ token: session.accessToken }).toString(),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const { active } = (await response.json()) as { active?: boolean };
    const isRefused = response.status === 200 && active === false;
    return isRefused ? { status: 401, code: "token_invalid" } : { status: response.status };
  });
}

function readAt(world: World, url: string, session: Session): Promise<void> {
  return note(world, session, async () => {
    const response = await fetch(`${url}/payments`, {
      dispatcher: agent,
      headers: { authorization: `Bearer ${session.accessToken}` },
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const { error } = (await response.json()) as { error?: { code: string } };
    return { status: response.status, ...(error === undefined ? {} : { code: error.code }) };
  });
}

async function note(
  world: World,
  { userId, sessionId }: Session,
  ask: () => Promise<{ status: number; code?: string }>,
): Promise<void> {
  const call: Call = {
    traceId: "",
    kind: "read",
    userId,
    sessionId,
    startMs: performance.now(),
    endMs: 0,
  };
  const answer = await ask().catch(() => undefined);
  if (answer !== undefined) call.answer = { ...answer, requestId: "" };
  call.endMs = performance.now();
  world.calls.push(call);
  await sleep(PAUSE_MS);
}

const CODES_OF_FAILURE = ["service_unavailable", "busy"];

/** Not answered, or with our own fault. */
export const isFailed = ({ answer }: Call): boolean =>
  answer === undefined || answer.status >= 500 || CODES_OF_FAILURE.includes(answer.code ?? "");

/** Calls that the gateway repeats when a service is gone. */
const REPEATED = ["read", "account", "refresh", "logout"];

/** Whether a call was under way when a process was killed that it may have been in. */
export const wasKilled = (call: Call, kills: readonly Kill[]): boolean =>
  kills.some(
    ({ part, fromMs, toMs, isOfNext }) =>
      // It only sends what has happened.
      part !== "event-service" &&
      call.startMs <= toMs &&
      call.endMs >= fromMs &&
      (part === "gateway" || !isOfNext || !REPEATED.includes(call.kind)),
  );
