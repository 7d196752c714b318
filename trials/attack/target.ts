import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** How long one call, one mail or one raw exchange is waited for. */
const PATIENCE_MS = 20_000;

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: an attack reads whatever the API sent
  body: any;
}

export interface Call {
  /** A loopback address to call from: each is a network of its own to the limits. */
  from?: string;
  token?: string;
  body?: unknown;
  headers?: Record<string, string | string[]>;
}

/** Where the attacked system listens. Only loopback: nobody attacks somebody else's system with this. */
export interface Target {
  url: URL;
  mailbox: URL;
  /** The first administrator's password, if the home of the local system is readable. */
  adminPassword: string | undefined;
}

export function assertLoopback(url: URL): void {
  if (url.protocol === "http:" && /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(url.hostname)) return;
  throw new Error(`${url.origin} is not on this machine: the attacks run against a local system only`);
}

let addresses = 0;
/** A loopback address that no case has used. */
export function freshAddress(): string {
  addresses += 1;
  const start = process.pid % 200;
  return `127.${20 + start}.${Math.floor(addresses / 250)}.${1 + (addresses % 250)}`;
}

export function call(
  target: Target,
  method: string,
  path: string,
  { from, token, body, headers = {} }: Call = {},
): Promise<Answer> {
  const payload = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      host: target.url.hostname,
      port: target.url.port,
      method,
      path,
      agent: false,
      ...(from !== undefined && { localAddress: from, family: 4 }),
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(payload !== undefined && {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(payload),
        }),
        ...headers,
      },
      timeout: PATIENCE_MS,
    });
    request.on("timeout", () => request.destroy(new Error("no answer in time")));
    request.on("error", reject);
    request.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const isJson = String(response.headers["content-type"]).includes("json") && text !== "";
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: isJson ? JSON.parse(text) : text,
        });
      });
    });
    request.end(payload);
  });
}

/** Sends bytes as they are and returns all that comes back until the other side closes, or `waitMs` has passed. */
export function sendRaw(target: Target, bytes: string, waitMs = 3_000): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(target.url.port), target.url.hostname);
    let received = "";
    const finish = () => {
      socket.destroy();
      resolve(received);
    };
    const timer = setTimeout(finish, waitMs);
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(received);
    });
    socket.write(bytes, "latin1");
  });
}

export interface Mail {
  subject: string;
  text: string;
}

/** What the mailbox received for an address, oldest first. */
export async function mailsTo(target: Target, address: string): Promise<Mail[]> {
  const response = await fetch(new URL("/email", target.mailbox), {
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const mails = (await response.json()) as (Mail & { to: { address: string }[] })[];
  return mails.filter(({ to }) => to.some((recipient) => recipient.address === address.toLowerCase()));
}

/** The token of the newest mailed link to a page, once there are `count` such links. */
export async function mailedToken(target: Target, address: string, page: string, count = 1): Promise<string> {
  const deadlineMs = Date.now() + PATIENCE_MS;
  for (;;) {
    const texts = (await mailsTo(target, address)).map(({ text }) => text);
    const tokens = texts.flatMap((text) =>
      [...text.matchAll(new RegExp(`/auth/${page}\\?token=([\\w-]+)`, "g"))].map((match) => match[1] ?? ""),
    );
    const newest = tokens.at(-1);
    if (newest !== undefined && tokens.length >= count) return newest;
    if (Date.now() > deadlineMs) throw new Error(`no mail with a link to ${page} for ${address}`);
    await sleep(200);
  }
}

/** One attack. It throws if the attack succeeds, and says in one line what was got. */
export interface AttackCase {
  name: string;
  run: (target: Target) => Promise<void>;
}

/** The running system lacks what this attack needs. */
export class NotPossible extends Error {
  override readonly name = "NotPossible";
}

/** @throws {Error} unless the promise holds. */
export function must(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise);
}
