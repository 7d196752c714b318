import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { hash } from "@node-rs/argon2";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#deploy/local/postgres/embedded-postgres.ts";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { randomPassword } from "#deploy/local/private-file.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { FLOOR } from "../support/identity.ts";
import { type IdentityCalls, type IdentityPeer, INSTALLED, type RunningPeer } from "./peer.ts";
import { familyOf, type Program, startPrograms } from "./processes.ts";

const CALL_MS = 30_000;
/** Keycloak makes its schema, which takes half a minute on two free cores. */
const START_MS = 240_000;

export const PASSWORD = "violet-harbour-4711";
export const emailOf = (user: number) => `user${user}@bench.example`;

/** A sentence for the table if this file of the peer is not there. */
export function missingFile(peer: string, ...path: string[]): string | undefined {
  if (existsSync(join(INSTALLED, ...path))) return undefined;
  return `${peer} not installed: run trials/bench/peers/setup.sh ${peer}`;
}

/** The same for all accounts, with Gatehouse's parameters. */
export async function passwordHash() {
  const salt = randomBytes(16);
  const { memoryKib, iterations, parallelism } = FLOOR;
  const phc = await hash(PASSWORD, { memoryCost: memoryKib, timeCost: iterations, parallelism, salt });
  return { phc, salt, digest: Buffer.from(phc.split("$").at(-1) ?? "", "base64") };
}

interface Plan extends Pick<IdentityPeer, "name" | "does" | "missing"> {
  database: string;
  /** Prepares what the program needs. It listens on `port`. */
  program(start: Start): Promise<Omit<Program, "listensAt">>;
  /** Called when it listens. */
  createAccounts?(start: Start): Promise<void>;
  calls(url: string): Calls;
}

interface Start {
  folder: string;
  users: number;
  port: number;
  url: string;
  database: { port: number; username: string; password: string; url: string };
}

/** `login` resolves to false if the password was refused. The other calls need a session of it. */
export interface Calls extends Pick<IdentityCalls, "refresh" | "check" | "me"> {
  login(user: number, password: string): Promise<boolean>;
}

/** A peer with a PostgreSQL of its own, as durable as Gatehouse's, whose processes count as its own. */
export function identityPeer({ name, does, missing, ...plan }: Plan): IdentityPeer {
  return { name, does, missing, start: (context) => start(plan, context) };
}

async function start(
  plan: Omit<Plan, "name" | "does" | "missing">,
  { folder, users }: { folder: string; users: number },
): Promise<RunningPeer & IdentityCalls> {
  const postgres = await startEmbeddedPostgres({
    dataDirectory: join(folder, "postgres"),
    port: await freePort(),
    password: randomPassword(),
    logFile: join(folder, "postgres.log"),
    durable: true,
  });
  const stops = [postgres.stop];
  const stop = async () => {
    for (const end of stops.toReversed()) await end();
  };
  try {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const context = { folder, users, port, url, database: await createDatabase(postgres, plan.database) };
    const program = {
      startMs: START_MS,
      ...(await plan.program(context)),
      listensAt: { host: "127.0.0.1", port },
    };
    const running = await startPrograms(folder, [program]);
    stops.push(running.stop);
    await plan.createAccounts?.(context);
    const calls = await checkedCalls(plan.calls(url), users);
    return { url, processes: () => [...running.processes(), ...familyOf(postgres.pid)], stop, ...calls };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function createDatabase({ server }: EmbeddedPostgres, name: string) {
  const admin = connectTo(server, "postgres");
  try {
    await admin.unsafe(`create database ${name} template template0`);
  } finally {
    await admin.end({ timeout: 1 });
  }
  const { host, port, username, password } = server;
  return { port, username, password, url: `postgres://${username}:${password}@${host}:${port}/${name}` };
}

/**
 * Logs every user in, so that the other calls have a session, and makes sure before anything is measured that each call is
 * answered rightly, and that a wrong password and calls without a session are refused.
 */
async function checkedCalls({ login: logIn, ...others }: Calls, users: number): Promise<IdentityCalls> {
  const login = async (user: number) => {
    if (!(await logIn(user, PASSWORD))) throw new Error(`the right password of ${emailOf(user)} was refused`);
  };
  if (await logIn(0, `${PASSWORD}5`)) throw new Error("a wrong password was accepted");
  for (const [name, ask] of Object.entries(others)) {
    const isAnswered = await ask(users).then(
      () => true,
      () => false,
    );
    if (isAnswered) throw new Error(`${name} was answered without a session`);
  }
  for (let user = 0; user < users; user += 1) await login(user);
  for (const ask of Object.values(others)) await ask(0);
  return { login, ...others };
}

/** @returns what answered, with its body as text and as JSON, undefined if it is not JSON. */
export async function call(url: string, init: RequestInit = {}) {
  const answer = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(CALL_MS), ...init });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: parsed(text) };
}

// biome-ignore lint/suspicious/noExplicitAny: each peer answers in its own form, and what is read of it is checked.
function parsed(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @throws unless the answer is as it must be. */
export function demand(
  isRight: boolean,
  what: string,
  { status, text }: { status: number; text: string },
): void {
  if (!isRight) throw new Error(`${what}: ${status} ${text.slice(0, 300)}`);
}
