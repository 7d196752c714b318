import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  type Delivery,
  DeliveryState,
  type Endpoint,
  EndpointStatus,
  WebhookServiceClient,
} from "#proto/gatehouse/events/v1/webhook_service.ts";
import type { Backend } from "../../backend.ts";
import type { Command, CommandOption } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";
import { placeText } from "../audit/audit-search.ts";
import { logPlaces } from "../log-places.ts";
import { table } from "../table.ts";
import { wholeNumber } from "../whole-number.ts";

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;
const DEFAULT_OVERLAP_H = 24;
const MAX_OVERLAP_H = 168;
const CHECK_WITH = "gatehouse webhooks list";

export function callWebhooks<R>(
  backend: Backend,
  work: (client: WebhookServiceClient, context: Parameters<Parameters<Backend["call"]>[2]>[1]) => Promise<R>,
): Promise<R> {
  return backend.call("event-service", WebhookServiceClient, work);
}

const PAGE_OPTIONS = {
  limit: { type: "string", value: "count", description: `1 to ${MAX_LIMIT}; default ${DEFAULT_LIMIT}` },
  cursor: { type: "string", value: "id", description: "continue after the previous page" },
} as const;

const pageOf = (values: ReadonlyMap<string, string>) => ({
  cursor: values.get("cursor") ?? "",
  limit: wholeNumber(values, "limit", { min: 1, max: MAX_LIMIT }) ?? DEFAULT_LIMIT,
});

const more = (nextCursor: string | null) => (nextCursor === null ? "" : `\nMore: --cursor ${nextCursor}`);

const TYPE_OPTION: CommandOption = {
  type: "string",
  value: "type",
  description: "of events, or the beginning of types with * at its end; repeatable",
  multiple: true,
};

export const webhooksList: Command = {
  name: "webhooks list",
  summary: "Show webhooks, newest first, a page at a time",
  positionals: [],
  options: PAGE_OPTIONS,
  async run({ values }, backend) {
    const answer = await callWebhooks(backend, (client, context) =>
      callUnary(client, client.listEndpoints, pageOf(values), context),
    );
    const webhooks = answer.endpoints.map(webhookView);
    const nextCursor = answer.nextCursor || null;
    const rows = webhooks.map(({ id, name, status, pausedReason, waiting, url, types }) => [
      ...[id, name, pausedReason ?? status, String(waiting), url, types.join(" ")],
    ]);
    const list = table(["ID", "NAME", "STATUS", "WAITING", "URL", "TYPES"], rows);
    return { text: `${list}${more(nextCursor)}`, json: { webhooks, nextCursor } };
  },
};

export const webhooksCreate: Command = {
  name: "webhooks create",
  summary: "Make a webhook, which is sent what happens from now on; its secret is shown this once",
  positionals: ["url"],
  options: {
    name: { type: "string", value: "text", description: "for people", required: true },
    type: { ...TYPE_OPTION, required: true },
    owner: { type: "string", value: "user", description: "id of the user who answers for it" },
  },
  checkWith: CHECK_WITH,
  async run({ positionals: [url = ""], values, lists }, backend) {
    const request = {
      ...{ url, name: values.get("name") ?? "", types: [...(lists.get("type") ?? [])] },
      ...{ ownerUserId: values.get("owner") ?? "", temporary: false },
    };
    const { endpoint, secret } = await callWebhooks(backend, (client, context) =>
      callUnary(client, client.createEndpoint, request, context),
    );
    const webhook = webhookView(endpoint);
    return {
      text: `${webhook.id} was made. Its secret, shown this once:\n${secret}`,
      json: { webhook, secret },
    };
  },
};

export const webhooksChange: Command = {
  name: "webhooks change",
  summary: "Change a webhook, pause or resume it",
  details: "Resumed, it is sent what it has missed.",
  positionals: ["id"],
  options: {
    url: { type: "string", value: "url", description: "another address" },
    name: { type: "string", value: "text", description: "another name" },
    type: { ...TYPE_OPTION, description: "these types instead; repeatable" },
    owner: { type: "string", value: "user", description: "id of another owner" },
    pause: { type: "boolean", description: "it is sent nothing" },
    resume: { type: "boolean", description: "it is sent events again" },
  },
  checkWith: CHECK_WITH,
  async run({ positionals: [endpointId = ""], values, lists, flags }, backend) {
    if (flags.has("pause") && flags.has("resume")) throw new UsageError("--pause or --resume, not both");
    const request = {
      endpointId,
      url: values.get("url") ?? "",
      name: values.get("name") ?? "",
      types: [...(lists.get("type") ?? [])],
      ownerUserId: values.get("owner") ?? "",
      status: flags.has("pause")
        ? EndpointStatus.PAUSED
        : flags.has("resume")
          ? EndpointStatus.ACTIVE
          : EndpointStatus.UNSPECIFIED,
    };
    const { endpoint } = await callWebhooks(backend, (client, context) =>
      callUnary(client, client.changeEndpoint, request, context),
    );
    const webhook = webhookView(endpoint);
    return { text: `${webhook.id} is ${webhook.status}`, json: { webhook } };
  },
};

export const webhooksDelete: Command = {
  name: "webhooks delete",
  summary: "Delete a webhook with its list of deliveries",
  positionals: ["id"],
  options: { yes: { type: "boolean", description: "needed: it cannot be undone" } },
  checkWith: CHECK_WITH,
  async run({ positionals: [endpointId = ""], flags }, backend) {
    if (!flags.has("yes")) throw new UsageError("This cannot be undone: repeat it with --yes");
    await callWebhooks(backend, (client, context) =>
      callUnary(client, client.deleteEndpoint, { endpointId }, context),
    );
    return { text: `${endpointId} is deleted`, json: { webhookId: endpointId } };
  },
};

export const webhooksRotateSecret: Command = {
  name: "webhooks rotate-secret",
  summary: "Give a webhook a new secret, which is shown this once",
  positionals: ["id"],
  options: {
    "overlap-hours": {
      type: "string",
      value: "hours",
      description: `how long the former secret signs too: 0 to ${MAX_OVERLAP_H}; default ${DEFAULT_OVERLAP_H}; meanwhile only 0 makes another one`,
    },
  },
  checkWith: CHECK_WITH,
  async run({ positionals: [endpointId = ""], values }, backend) {
    const range = { min: 0, max: MAX_OVERLAP_H };
    const overlapHours = wholeNumber(values, "overlap-hours", range) ?? DEFAULT_OVERLAP_H;
    const { endpoint, secret } = await callWebhooks(backend, (client, context) =>
      callUnary(client, client.rotateSecret, { endpointId, overlapHours }, context),
    );
    const webhook = webhookView(endpoint);
    const until = webhook.formerSecretUntil;
    const former = until === null ? "has ended" : `signs too until ${until}`;
    return {
      text: `The former secret ${former}. The new one, shown this once:\n${secret}`,
      json: { webhook, secret },
    };
  },
};

export const webhooksTest: Command = {
  name: "webhooks test",
  summary: "Send a webhook a test, once: an event of the type gatehouse.webhook.test.v1",
  positionals: ["id"],
  options: {},
  async run({ positionals: [endpointId = ""] }, backend) {
    const answer = await callWebhooks(backend, (client, context) =>
      callUnary(client, client.sendTest, { endpointId }, context),
    );
    const { durationMs } = answer;
    const [httpStatus, problem] = [answer.httpStatus || null, answer.problem || null];
    const [what, exitCode] = problem === null ? ["delivered", EXIT.ok] : [`failed: ${problem}`, EXIT.failed];
    const status = httpStatus === null ? "no answer" : `HTTP ${httpStatus}`;
    return {
      text: `${what} (${status}, ${durationMs} ms)`,
      json: { httpStatus, problem, durationMs },
      exitCode,
    };
  },
};

export const webhooksReplay: Command = {
  name: "webhooks replay",
  summary: "Send a webhook past events again",
  positionals: ["id"],
  options: {
    from: {
      type: "string",
      value: "place",
      description: "the first one: 17, or of several logs 17,1:40",
      required: true,
    },
  },
  checkWith: "gatehouse webhooks deliveries <id>",
  async run({ positionals: [endpointId = ""], values }, backend) {
    const from = logPlaces("from", values.get("from") ?? "");
    const { endpoint } = await callWebhooks(backend, (client, context) =>
      callUnary(client, client.replayEvents, { endpointId, from }, context),
    );
    const webhook = webhookView(endpoint);
    return { text: `${webhook.id} is sent events again, from ${values.get("from")} on`, json: { webhook } };
  },
};

export const webhooksDeliveries: Command = {
  name: "webhooks deliveries",
  summary: "Show what was sent to a webhook, newest event first, a page at a time",
  positionals: ["id"],
  options: PAGE_OPTIONS,
  async run({ positionals: [endpointId = ""], values }, backend) {
    const request = { endpointId, ...pageOf(values) };
    const answer = await callWebhooks(backend, (client, context) =>
      callUnary(client, client.listDeliveries, request, context),
    );
    const deliveries = answer.deliveries.map(deliveryView);
    const nextCursor = answer.nextCursor || null;
    const rows = deliveries.map(({ log, sequence, type, subject, state, attempts, attemptedAt, ...last }) => [
      ...[placeText(log, sequence), type, subject ?? "", state, String(attempts), attemptedAt ?? ""],
      last.problem === "status" ? `HTTP ${last.httpStatus}` : (last.problem ?? ""),
    ]);
    const head = ["PLACE", "TYPE", "SUBJECT", "STATE", "ATTEMPTS", "LAST ATTEMPT", "PROBLEM"];
    return { text: `${table(head, rows)}${more(nextCursor)}`, json: { deliveries, nextCursor } };
  },
};

const timeText = (time: Date | undefined) => time?.toISOString() ?? null;

function webhookView(endpoint: Endpoint | undefined) {
  if (endpoint === undefined) throw new Error("event-service sent no webhook");
  const { id, name, url, types, ownerUserId, status, pausedReason, waiting } = endpoint;
  return {
    ...{ id, name, url, types, ownerId: ownerUserId || null },
    status: status === EndpointStatus.ACTIVE ? "active" : "paused",
    pausedReason: pausedReason || null,
    failingSince: timeText(endpoint.failingSince),
    waiting,
    formerSecretUntil: timeText(endpoint.formerSecretUntil),
    createdAt: timeText(endpoint.createdAt),
    changedAt: timeText(endpoint.changedAt),
  };
}

const STATES: ReadonlyMap<DeliveryState, string> = new Map([
  [DeliveryState.WAITING, "waiting"],
  [DeliveryState.DELIVERED, "delivered"],
  [DeliveryState.GIVEN_UP, "given_up"],
]);

function deliveryView(delivery: Delivery) {
  const { eventId, place, type, subject, state, attempts, httpStatus, problem, durationMs } = delivery;
  return {
    ...{ eventId, log: place?.log ?? 0, sequence: place?.sequence ?? 0, type, subject: subject || null },
    state: STATES.get(state) ?? "unknown",
    ...{ attempts, httpStatus: httpStatus || null, problem: problem || null },
    attemptedAt: timeText(delivery.attemptedAt),
    durationMs,
    nextAttemptAt: timeText(delivery.nextAttemptAt),
  };
}
