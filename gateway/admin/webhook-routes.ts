import { z } from "zod";
import { filterText } from "#audit-client/stream/record-reading.ts";
import {
  type Delivery,
  DeliveryState,
  type Endpoint,
  EndpointStatus,
} from "#proto/gatehouse/events/v1/webhook_service.ts";
import { idField, nextCursorField, timeField } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import { HTTP_CREATED } from "../edge/answers/http-errors.ts";
import type { NoteReading } from "../edge/audit.ts";
import { principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, textField, textLike } from "../routing/fields.ts";
import { answer, answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";
import { changeOf, pageQuery } from "./admin-fields.ts";

const MAX_OVERLAP_H = 168;
const MAX_LOG = 255;

const statusField = z.enum(["active", "paused"]);
const secretField = textLike("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "Shown this once.");
const problemField = textLike(
  "status",
  "`status`, `not_https`, `address_refused`, `redirect`, `too_long`, `too_slow`, `unreachable`; null if it was delivered.",
).nullable();
const httpStatusField = intLike(200, "Of the answer; null without one.").nullable();
const webhookAnswer = z
  .strictObject({
    id: idField,
    kind: textLike("webhook", "Or a stream of Shared Signals, which its client changes: `push`, `poll`."),
    clientId: idField.nullable(),
    name: textLike("Tickets"),
    url: textLike("https://tickets.example/hook"),
    types: z.array(textLike("gatehouse.user.*")),
    ownerId: idField.nullable(),
    status: statusField,
    pausedReason: textLike(
      "failing",
      "`asked`, `failing` for three days, or `gone`: it answered 410.",
    ).nullable(),
    failingSince: timeField.nullable(),
    waiting: intLike(0, "Deliveries that wait for another attempt."),
    formerSecretUntil: timeField.nullable(),
    createdAt: timeField,
    changedAt: timeField,
  })
  .meta({ id: "Webhook", description: "An address that is sent events (Standard Webhooks)." });
const deliveryAnswer = z
  .strictObject({
    eventId: idField,
    log: intLike(0),
    sequence: intLike(17),
    type: textLike("gatehouse.user.password_changed.v1"),
    subject: textLike("0199a000-0000-7000-8000-000000000001").nullable(),
    state: z.enum(["waiting", "delivered", "given_up"]),
    attempts: intLike(1),
    httpStatus: httpStatusField,
    problem: problemField,
    attemptedAt: timeField.nullable(),
    durationMs: intLike(12),
    nextAttemptAt: timeField.nullable(),
  })
  .meta({ id: "WebhookDelivery", description: "An event, and its last attempt." });

const uuid = z.uuid().toLowerCase();
const WebhookParams = z.strictObject({ id: uuid });
/** event-service checks the rest. */
const wantedFields = {
  name: textField(1, 100, { examples: ["Tickets"] }),
  url: textField(1, 2_048, { description: "`https`.", examples: ["https://tickets.example/hook"] }),
  types: z
    .array(textField(1, 150, { examples: ["gatehouse.user.*"] }))
    .min(1)
    .max(50)
    .meta({ description: "Types of events, or beginnings of types with `*` at their end." }),
};
const NewWebhook = z.strictObject({
  ...wantedFields,
  ownerId: uuid.optional().meta({ description: "Who answers for it; by default the user who makes it." }),
});
const WebhookChange = changeOf({ ...wantedFields, ownerId: uuid, status: statusField });
const RotateBody = z
  .strictObject({
    overlapHours: z
      .int()
      .min(0)
      .max(MAX_OVERLAP_H)
      .default(24)
      .meta({ description: "How long the former secret signs too.", examples: [24] }),
  })
  .default({ overlapHours: 24 });
const ReplayBody = z.strictObject({
  from: z
    .array(
      z.strictObject({
        log: z
          .int()
          .min(0)
          .max(MAX_LOG)
          .meta({ examples: [0] }),
        sequence: z
          .int()
          .min(1)
          .meta({ examples: [17] }),
      }),
    )
    .min(1)
    .max(MAX_LOG + 1)
    .meta({ description: "The first event that is sent again, in each log that is named." }),
});

interface WebhookAdminDeps extends Pick<Backends, "webhooks"> {
  noteReading: NoteReading;
  adminPolicy: AdminPolicy;
}

/** What an endpoint is sent is the audit log's: who makes or changes one may read that too. */
export function registerWebhookRoutes(
  app: GatewayApp,
  { webhooks, noteReading, adminPolicy }: WebhookAdminDeps,
): void {
  const route = routeIn(app, "Webhooks");
  const reading = adminPolicy("webhooks:read");
  const writing = adminPolicy("webhooks:write", "audit:read");

  route("listWebhooks", "GET", "/admin/webhooks", {
    summary: "List webhooks",
    policy: reading,
    schema: { querystring: z.strictObject(pageQuery) },
    answers: answersWith(
      "A page of webhooks, newest first.",
      z.strictObject({ webhooks: z.array(webhookAnswer), nextCursor: nextCursorField }),
    ),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      const { cursor = "", limit } = request.query;
      await noteReading(request, { action: "webhook.listed", filter: filterText({ cursor, limit }) });
      const page = await webhooks.listEndpoints({ cursor, limit }, request.state.call);
      const list = { webhooks: page.endpoints.map(toWebhook), nextCursor: page.nextCursor || null };
      return success(list, "Webhooks, newest first.");
    },
  });

  route("createWebhook", "POST", "/admin/webhooks", {
    summary: "Make a webhook",
    description: "It is sent what happens from now on.",
    policy: { ...writing, action: "admin.webhooks.create" },
    schema: { body: NewWebhook },
    answers: {
      [HTTP_CREATED]: answer("The webhook.", z.strictObject({ webhook: webhookAnswer, secret: secretField })),
    },
    codes: ["conflict"],
    handler: async (request, reply) => {
      // Of a program nobody: none could be written to.
      const { name, url, types, ownerId: ownerUserId = principalOf(request).userId } = request.body;
      const wanted = { name, url, types, ownerUserId, temporary: false };
      const { endpoint, secret } = await webhooks.createEndpoint(wanted, request.state.call);
      reply.code(HTTP_CREATED);
      return success({ webhook: toWebhook(endpoint), secret }, "The webhook was made.");
    },
  });

  route("getWebhook", "GET", "/admin/webhooks/:id", {
    summary: "Show a webhook",
    policy: reading,
    schema: { params: WebhookParams },
    answers: answersWith("The webhook.", z.strictObject({ webhook: webhookAnswer })),
    codes: ["not_found", "audit_unavailable"],
    handler: async (request) => {
      await noteReading(request, { action: "webhook.read" });
      const { endpoint } = await webhooks.getEndpoint({ endpointId: request.params.id }, request.state.call);
      return success({ webhook: toWebhook(endpoint) }, "The webhook.");
    },
  });

  route("updateWebhook", "PATCH", "/admin/webhooks/:id", {
    summary: "Change, pause or resume a webhook",
    description:
      "What is absent stays. Active again, it is sent what it has missed. The receiver of a stream is notified.",
    policy: { ...writing, action: "admin.webhooks.update" },
    schema: { params: WebhookParams, body: WebhookChange },
    answers: answersWith("The webhook as it is now.", z.strictObject({ webhook: webhookAnswer })),
    codes: ["not_found", "conflict"],
    handler: async (request) => {
      const { name = "", url = "", types = [], ownerId: ownerUserId = "", status } = request.body;
      const change = {
        ...{ endpointId: request.params.id, name, url, types, ownerUserId },
        status: status === undefined ? EndpointStatus.UNSPECIFIED : STATUSES[status],
      };
      const { endpoint } = await webhooks.changeEndpoint(change, request.state.call);
      return success({ webhook: toWebhook(endpoint) }, "The webhook was changed.");
    },
  });

  route("deleteWebhook", "DELETE", "/admin/webhooks/:id", {
    summary: "Delete a webhook",
    policy: { ...writing, action: "admin.webhooks.delete" },
    schema: { params: WebhookParams },
    answers: answersWith("It is gone with its deliveries."),
    codes: ["not_found"],
    handler: async (request) => {
      await webhooks.deleteEndpoint({ endpointId: request.params.id }, request.state.call);
      return success({}, "The webhook is gone.");
    },
  });

  route("rotateWebhookSecret", "POST", "/admin/webhooks/:id/secret", {
    summary: "Give a webhook a new secret",
    description:
      "409 `conflict` while a former secret still signs, unless `overlapHours` is 0: then all earlier ones end at once.",
    policy: { ...writing, action: "admin.webhooks.rotate_secret" },
    schema: { params: WebhookParams, body: RotateBody },
    answers: answersWith("The new secret.", z.strictObject({ webhook: webhookAnswer, secret: secretField })),
    codes: ["not_found", "conflict"],
    handler: async (request) => {
      const rotation = { endpointId: request.params.id, overlapHours: request.body.overlapHours };
      const { endpoint, secret } = await webhooks.rotateSecret(rotation, request.state.call);
      return success({ webhook: toWebhook(endpoint), secret }, "The secret is new.");
    },
  });

  route("testWebhook", "POST", "/admin/webhooks/:id/test", {
    summary: "Send a test",
    description: "An event of the type `gatehouse.webhook.test.v1`, once, also to a paused webhook.",
    policy: { ...writing, action: "admin.webhooks.test" },
    schema: { params: WebhookParams },
    answers: answersWith(
      "What came of it.",
      z.strictObject({ httpStatus: httpStatusField, problem: problemField, durationMs: intLike(12) }),
    ),
    codes: ["not_found", "conflict", "busy"],
    handler: async (request) => {
      const endpointId = request.params.id;
      const { httpStatus, problem, durationMs } = await webhooks.sendTest({ endpointId }, request.state.call);
      const outcome = { httpStatus: httpStatus || null, problem: problem || null, durationMs };
      return success(outcome, problem === "" ? "The test was delivered." : "The test was not delivered.");
    },
  });

  route("replayWebhook", "POST", "/admin/webhooks/:id/replay", {
    summary: "Send past events again",
    policy: { ...writing, action: "admin.webhooks.replay" },
    schema: { params: WebhookParams, body: ReplayBody },
    answers: answersWith("The webhook, put back.", z.strictObject({ webhook: webhookAnswer })),
    codes: ["not_found"],
    handler: async (request) => {
      const { from } = request.body;
      const wanted = { endpointId: request.params.id, from };
      const { endpoint } = await webhooks.replayEvents(wanted, request.state.call);
      return success({ webhook: toWebhook(endpoint) }, "The events are sent again.");
    },
  });

  route("listWebhookDeliveries", "GET", "/admin/webhooks/:id/deliveries", {
    summary: "List deliveries",
    description: "Those that wait, and at least the last 1,000 of the others.",
    policy: reading,
    schema: { params: WebhookParams, querystring: z.strictObject(pageQuery) },
    answers: answersWith(
      "A page of deliveries, newest event first.",
      z.strictObject({ deliveries: z.array(deliveryAnswer), nextCursor: nextCursorField }),
    ),
    codes: ["not_found", "audit_unavailable"],
    handler: async (request) => {
      const { cursor = "", limit } = request.query;
      await noteReading(request, { action: "webhook.read", filter: filterText({ cursor, limit }) });
      const endpointId = request.params.id;
      const page = await webhooks.listDeliveries({ endpointId, cursor, limit }, request.state.call);
      const list = { deliveries: page.deliveries.map(toDelivery), nextCursor: page.nextCursor || null };
      return success(list, "Deliveries, newest event first.");
    },
  });
}

const STATUSES = { active: EndpointStatus.ACTIVE, paused: EndpointStatus.PAUSED } as const;
const STATES = {
  waiting: DeliveryState.WAITING,
  delivered: DeliveryState.DELIVERED,
  given_up: DeliveryState.GIVEN_UP,
} as const;

const timeText = (time: Date | undefined) => time?.toISOString() ?? null;

function toWebhook(message: Endpoint | undefined): z.output<typeof webhookAnswer> {
  const status = statusField.options.find((name) => STATUSES[name] === message?.status);
  if (message?.createdAt === undefined || message.changedAt === undefined || status === undefined)
    throw new Error("event-service sent a webhook that this gateway cannot read");
  const { id, kind, clientId, name, url, types, ownerUserId, pausedReason, waiting } = message;
  const { createdAt, changedAt } = message;
  return {
    ...{
      id,
      kind,
      clientId: clientId || null,
      name,
      url,
      types,
      ownerId: ownerUserId || null,
      status,
      waiting,
    },
    pausedReason: pausedReason || null,
    failingSince: timeText(message.failingSince),
    formerSecretUntil: timeText(message.formerSecretUntil),
    createdAt: createdAt.toISOString(),
    changedAt: changedAt.toISOString(),
  };
}

function toDelivery(message: Delivery): z.output<typeof deliveryAnswer> {
  const { eventId, place, type, subject, attempts, httpStatus, problem, durationMs } = message;
  const state = deliveryAnswer.shape.state.options.find((name) => STATES[name] === message.state);
  if (place === undefined || state === undefined)
    throw new Error("event-service sent a delivery that this gateway cannot read");
  return {
    ...{ eventId, log: place.log, sequence: place.sequence, type, subject: subject || null, state },
    ...{ attempts, httpStatus: httpStatus || null, problem: problem || null, durationMs },
    attemptedAt: timeText(message.attemptedAt),
    nextAttemptAt: timeText(message.nextAttemptAt),
  };
}
