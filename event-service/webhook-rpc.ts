import { filterText, type RecordReading } from "#audit-client/stream/record-reading.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type Delivery as DeliveryMessage,
  DeliveryState,
  type Endpoint as EndpointMessage,
  EndpointStatus,
  type WebhookServiceServer,
} from "#proto/gatehouse/events/v1/webhook_service.ts";
import type { Delivery } from "./delivery/delivery-store.ts";
import {
  changeEndpoint,
  createEndpoint,
  deleteEndpoint,
  getEndpoint,
  listDeliveries,
  listEndpoints,
  type ManageDeps,
  replayEvents,
  rotateSecret,
  type ShownEndpoint,
  sendTest,
} from "./manage/manage-endpoints.ts";

const administrators = ["gateway", "operator"] as const;

export const WEBHOOK_CALLERS: Callers<WebhookServiceServer> = {
  listEndpoints: administrators,
  getEndpoint: administrators,
  createEndpoint: administrators,
  changeEndpoint: administrators,
  deleteEndpoint: administrators,
  rotateSecret: administrators,
  sendTest: administrators,
  replayEvents: administrators,
  listDeliveries: administrators,
};

/** An operator's act is recorded before it takes effect; the gateway records those of users itself. */
export function createWebhookRpc(
  deps: ManageDeps,
  record: RecordReading,
): Implementation<WebhookServiceServer> {
  return {
    async listEndpoints({ cursor, limit }, context) {
      await record(context, { action: "webhook.listed", filter: filterText({ cursor, limit }) });
      const page = await listEndpoints(deps, { cursor, limit });
      return { endpoints: page.endpoints.map(toMessage), nextCursor: page.nextCursor ?? "" };
    },
    async getEndpoint({ endpointId }, context) {
      await record(context, { action: "webhook.read", resource: endpointId });
      return { endpoint: toMessage(await getEndpoint(deps, endpointId)) };
    },
    async createEndpoint({ name, url, types, ownerUserId, temporary }, context) {
      await record(context, { action: "webhook.created", filter: filterText({ types: types.join(" ") }) });
      const wanted = { name, url, types, ownerId: ownerUserId, isTemporary: temporary };
      const { endpoint, secret } = await createEndpoint(deps, wanted);
      return { endpoint: toMessage(endpoint), secret };
    },
    async changeEndpoint({ endpointId, name, url, types, ownerUserId, status }, context) {
      const change = {
        name: name || undefined,
        url: url || undefined,
        types: types.length > 0 ? types : undefined,
        ownerId: ownerUserId || undefined,
        status: fromStatus(status),
      };
      const changed = Object.entries(change).filter(([, value]) => value !== undefined);
      const filter = filterText({
        changed: changed.map(([field]) => field).join(" "),
        status: change.status,
      });
      await record(context, { action: "webhook.changed", resource: endpointId, filter });
      return { endpoint: toMessage(await changeEndpoint(deps, endpointId, change)) };
    },
    async deleteEndpoint({ endpointId }, context) {
      await record(context, { action: "webhook.deleted", resource: endpointId });
      await deleteEndpoint(deps, endpointId);
      return {};
    },
    async rotateSecret({ endpointId, overlapHours }, context) {
      const filter = filterText({ overlapHours });
      await record(context, { action: "webhook.secret_rotated", resource: endpointId, filter });
      const { endpoint, secret } = await rotateSecret(deps, endpointId, overlapHours);
      return { endpoint: toMessage(endpoint), secret };
    },
    async sendTest({ endpointId }, context) {
      await record(context, { action: "webhook.tested", resource: endpointId });
      const { httpStatus, problem, durationMs } = await sendTest(deps, endpointId);
      return { httpStatus, problem, durationMs };
    },
    async replayEvents({ endpointId, from }, context) {
      const places = from.map(({ log, sequence }) => `${log}:${sequence}`).join(" ");
      await record(context, {
        action: "webhook.replayed",
        resource: endpointId,
        filter: filterText({ from: places }),
      });
      return { endpoint: toMessage(await replayEvents(deps, endpointId, from)) };
    },
    async listDeliveries({ endpointId, cursor, limit }, context) {
      await record(context, {
        action: "webhook.read",
        resource: endpointId,
        filter: filterText({ cursor, limit }),
      });
      const page = await listDeliveries(deps, endpointId, { cursor, limit });
      return { deliveries: page.deliveries.map(toDelivery), nextCursor: page.nextCursor ?? "" };
    },
  };
}

const STATUSES = { active: EndpointStatus.ACTIVE, paused: EndpointStatus.PAUSED } as const;
const STATES = {
  waiting: DeliveryState.WAITING,
  delivered: DeliveryState.DELIVERED,
  given_up: DeliveryState.GIVEN_UP,
} as const;

function fromStatus(status: EndpointStatus): ShownEndpoint["status"] | undefined {
  if (status === EndpointStatus.UNSPECIFIED) return undefined;
  if (status === EndpointStatus.ACTIVE) return "active";
  if (status === EndpointStatus.PAUSED) return "paused";
  const fields = [{ field: "status", code: "invalid_value", message: "is not known" }];
  throw new DomainError("validation_failed", undefined, { fields });
}

function toMessage(endpoint: ShownEndpoint): EndpointMessage {
  const {
    isTemporary: _,
    clientId,
    ownerId,
    status,
    pausedReason,
    failingSince,
    formerSecretUntil,
    ...rest
  } = endpoint;
  return {
    ...rest,
    clientId: clientId ?? "",
    ownerUserId: ownerId ?? "",
    status: STATUSES[status],
    pausedReason: pausedReason ?? "",
    failingSince: failingSince ?? undefined,
    formerSecretUntil: formerSecretUntil ?? undefined,
  };
}

function toDelivery({
  log,
  sequence,
  state,
  attemptedAt,
  nextAttemptAt,
  ...rest
}: Delivery): DeliveryMessage {
  return {
    ...rest,
    place: { log, sequence },
    state: STATES[state],
    attemptedAt: attemptedAt ?? undefined,
    nextAttemptAt: nextAttemptAt ?? undefined,
  };
}
