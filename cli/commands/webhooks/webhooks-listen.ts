import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { callUnary } from "#kit/rpc/rpc-client.ts";
import { isThisHost } from "#kit/values/network-of.ts";
import type { Command, Terminal } from "../../command.ts";
import { printable, printableJson } from "../../printable.ts";
import { UsageError } from "../../usage-error.ts";
import { placeText } from "../audit/audit-search.ts";
import { callWebhooks } from "./webhooks.ts";

const FORWARD_TIMEOUT_MS = 4_000;
const HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"];
const STATUS = { taken: 204, unsigned: 401, notForwarded: 502 };

export const webhooksListen: Command = {
  name: "webhooks listen",
  summary: "Show events as they come, through a webhook of this program's own",
  details:
    "Ends with Ctrl-C, and deletes the webhook. It is on 127.0.0.1, so event-service must run on this machine and may call loopback " +
    "addresses (WEBHOOK_NETWORKS), as that of npm start. Each line says whether the signature was verified. With --forward-to an event " +
    "that is not taken there is sent again later. --json prints one object per line (JSON Lines).",
  positionals: [],
  options: {
    type: {
      type: "string",
      value: "type",
      description: "of events, or the beginning of types with * at its end; repeatable; default gatehouse.*",
      multiple: true,
    },
    "forward-to": {
      type: "string",
      value: "url",
      description: "send body and signature on to this address of this machine, too",
    },
  },
  checkWith: "gatehouse webhooks list",
  async run({ values, lists, flags }, backend, terminal) {
    const forwardTo = loopbackUrl(values.get("forward-to"));
    const types = lists.get("type") ?? ["gatehouse.*"];
    const stopped = Promise.withResolvers<void>();
    const stop = () => stopped.resolve();
    const secret = Promise.withResolvers<string>();
    const show = flags.has("json") ? asJson : asLine;
    const server = createServer((request, response) => {
      const work = secret.promise.then((known) => receive(request, { secret: known, forwardTo }));
      work.then(
        (received) => answer(response, received, terminal, show).catch(stopped.reject),
        // The sender has left.
        () => response.destroy(),
      );
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
    try {
      const wanted = { name: "gatehouse webhooks listen", url, types: [...types], ownerUserId: "" };
      const made = await callWebhooks(backend, (client, context) =>
        callUnary(client, client.createEndpoint, { ...wanted, temporary: true }, context),
      );
      const endpointId = made.endpoint?.id ?? "";
      secret.resolve(made.secret);
      terminal.writeError(`gatehouse: listening as webhook ${endpointId} until Ctrl-C\n`);
      try {
        await stopped.promise;
      } finally {
        await callWebhooks(backend, (client, context) =>
          callUnary(client, client.deleteEndpoint, { endpointId }, context),
        );
      }
    } finally {
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeListener(signal, stop);
      server.close();
      server.closeAllConnections();
    }
    return undefined;
  },
};

/** @throws {UsageError} */
function loopbackUrl(given: string | undefined): string | undefined {
  if (given === undefined) return undefined;
  const url = URL.parse(given);
  if (url !== null && /^https?:$/.test(url.protocol) && isThisHost(url.hostname)) return url.href;
  throw new UsageError("--forward-to must be an http address of this machine: http://localhost:3000/hook");
}

/** What is read here of a CloudEvent of event-service. */
interface Event {
  time: string;
  type: string;
  subject?: string;
  log?: number;
  sequence?: string;
  data: { outcome?: string };
}

interface Received {
  isVerified: boolean;
  /** Undefined if it was not verified. */
  event?: Event;
  /** HTTP status, 0 without an answer. Undefined if it was not forwarded. */
  forwardStatus?: number;
}

async function receive(
  request: IncomingMessage,
  { secret, forwardTo }: { secret: string; forwardTo: string | undefined },
): Promise<Received> {
  const body = await text(request);
  const headers = Object.fromEntries(HEADERS.map((name) => [name, String(request.headers[name] ?? "")]));
  try {
    const event = new Webhook(secret).verify(body, headers) as Event;
    if (forwardTo === undefined) return { isVerified: true, event };
    const forwarded = { ...headers, "content-type": request.headers["content-type"] ?? "" };
    return { isVerified: true, event, forwardStatus: await forward(forwardTo, forwarded, body) };
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    return { isVerified: false };
  }
}

/** @returns the HTTP status; 0: there was no answer. */
async function forward(url: string, headers: Record<string, string>, body: string): Promise<number> {
  const signal = AbortSignal.timeout(FORWARD_TIMEOUT_MS);
  try {
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
    await response.body?.cancel();
    return response.status;
  } catch {
    return 0;
  }
}

async function answer(
  response: ServerResponse,
  received: Received,
  terminal: Terminal,
  show: (received: Received) => string,
): Promise<void> {
  const { isVerified, forwardStatus = STATUS.taken } = received;
  const isTaken = forwardStatus >= 200 && forwardStatus < 300;
  const status = isTaken ? STATUS.taken : STATUS.notForwarded;
  response.writeHead(isVerified ? status : STATUS.unsigned).end();
  await terminal.writeOut(`${show(received)}\n`);
}

const asJson = ({ isVerified, event, forwardStatus }: Received) =>
  printableJson({ isVerified, forwardStatus: forwardStatus ?? null, event: event ?? null });

function asLine({ event, forwardStatus }: Received): string {
  if (event === undefined) return `${new Date().toISOString()}  bad signature: answered ${STATUS.unsigned}`;
  const { time, type, subject = "", log = 0, sequence = "", data } = event;
  const cells = [time, type, subject, data.outcome ?? "", sequence && placeText(log, Number(sequence))];
  const forwarded = forwardStatus === undefined ? [] : [`forwarded: ${forwardStatus || "no answer"}`];
  return [...cells.map((cell) => printable(cell || "-")), "signature verified", ...forwarded].join("  ");
}
