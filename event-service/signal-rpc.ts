import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { invalidField } from "#kit/values/errors.ts";
import {
  type SignalServiceServer,
  type StreamDelivery as StreamDeliveryMessage,
  type Stream as StreamMessage,
  StreamStatus,
} from "#proto/gatehouse/events/v1/signal_service.ts";
import type { CourierEndpoint } from "./endpoints/endpoint-store.ts";
import {
  changeStream,
  createStream,
  deleteStream,
  getStream,
  pollStream,
  type StreamDelivery,
  type StreamDeps,
  setStreamStatus,
  verifyStream,
} from "./manage/manage-streams.ts";
import { SIGNAL_TYPES } from "./stream/signal.ts";

const receivers = ["gateway"] as const;

export const SIGNAL_CALLERS: Callers<SignalServiceServer> = {
  getStream: receivers,
  createStream: receivers,
  changeStream: receivers,
  deleteStream: receivers,
  setStreamStatus: receivers,
  verifyStream: receivers,
  pollStream: receivers,
};

/** The gateway has checked that the client is the caller, and records what it changes. */
export function createSignalRpc(deps: StreamDeps): Implementation<SignalServiceServer> {
  return {
    getStream: async (name) => ({ stream: toMessage(await getStream(deps, name)) }),
    async createStream({ clientId, delivery, eventsRequested, description }) {
      const wanted = { ...given(delivery, eventsRequested), description };
      return { stream: toMessage(await createStream(deps, clientId, wanted)) };
    },
    async changeStream({ delivery, eventsRequested, description, replaces, ...name }) {
      const change = {
        ...given(delivery, eventsRequested),
        ...(description !== undefined && { description }),
      };
      return { stream: toMessage(await changeStream(deps, name, { ...change, replaces })) };
    },
    async deleteStream(name) {
      await deleteStream(deps, name);
      return {};
    },
    async setStreamStatus({ status, ...name }) {
      const reason = REASONS.get(status);
      if (reason === undefined) throw invalidField("status", "invalid_value", "is not known");
      return { stream: toMessage(await setStreamStatus(deps, name, reason)) };
    },
    async verifyStream({ state, ...name }) {
      await verifyStream(deps, name, state);
      return {};
    },
    pollStream: ({ clientId, streamId, ...poll }) => pollStream(deps, { clientId, streamId }, poll),
  };
}

const REASONS = new Map<StreamStatus, "asked" | "disabled" | null>([
  [StreamStatus.ENABLED, null],
  [StreamStatus.PAUSED, "asked"],
  [StreamStatus.DISABLED, "disabled"],
]);

function given(delivery: StreamDeliveryMessage | undefined, eventsRequested: readonly string[]) {
  return {
    ...(delivery && { delivery: delivery satisfies StreamDelivery }),
    ...(eventsRequested.length > 0 && { eventsRequested }),
  };
}

function toMessage({ id, clientId, url, types, name, pausedReason }: CourierEndpoint): StreamMessage {
  const isDisabled = pausedReason === "disabled";
  const paused = isDisabled ? StreamStatus.DISABLED : StreamStatus.PAUSED;
  return {
    ...{ id, clientId: clientId ?? "", pushUrl: url, description: name },
    eventsRequested: types,
    eventsDelivered: SIGNAL_TYPES.filter((type) => types.includes(type)),
    eventsSupported: [...SIGNAL_TYPES],
    status: pausedReason === null ? StreamStatus.ENABLED : paused,
    statusReason: isDisabled ? "" : (pausedReason ?? ""),
  };
}
