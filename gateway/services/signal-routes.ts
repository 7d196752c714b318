import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";
import { type Stream, StreamStatus } from "#proto/gatehouse/events/v1/signal_service.ts";
import type { Backends } from "../backends/backends.ts";
import { HTTP_CREATED } from "../edge/answers/http-errors.ts";
import { principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { optional, textField, textLike } from "../routing/fields.ts";
import { JSON_TYPE } from "../routing/route-docs.ts";
import type { RoutePolicy } from "../routing/route-policy.ts";

const PUSH = "urn:ietf:rfc:8935";
const POLL = "urn:ietf:rfc:8936";
const SESSION_REVOKED = "https://schemas.openid.net/secevent/caep/event-type/session-revoked";
const STREAM_ID = "0199a000-0000-7000-8000-00000000000b";
const HTTP_NO_CONTENT = 204;
const MAX_AGE_S = 300;
const MAX_POLLED = 100;
const MAX_SETTLED = 1_000;
/** Of as many tokens that are refused, each with a description. */
const POLL_LIMIT_BYTES = 256 * 1024;

const url = textLike("https://gateway.example.com/ssf/streams");
const types = z.array(textLike(SESSION_REVOKED));
const method = z.enum([PUSH, POLL]);
const configurationAnswer = z
  .strictObject({
    spec_version: z.literal("1_0"),
    issuer: textLike("https://gateway.example.com"),
    jwks_uri: url,
    delivery_methods_supported: z.array(method),
    configuration_endpoint: url,
    status_endpoint: url,
    verification_endpoint: url,
    authorization_schemes: z.array(z.strictObject({ spec_urn: textLike("urn:ietf:rfc:6749") })),
    default_subjects: z.literal("ALL"),
  })
  .meta({ id: "SignalTransmitter", description: "OpenID Shared Signals Framework 1.0, section 7.1." });
const streamAnswer = z
  .strictObject({
    stream_id: textLike(STREAM_ID),
    iss: textLike("https://gateway.example.com"),
    aud: textLike("0199a000-0000-7000-8000-00000000000c"),
    delivery: z.strictObject({ method, endpoint_url: url }),
    events_supported: types,
    events_requested: types,
    events_delivered: types,
    description: textLike("Fraud detection"),
  })
  .meta({ id: "SignalStream", description: "OpenID Shared Signals Framework 1.0, section 8.1.1." });
const status = z.enum(["enabled", "paused", "disabled"]);
const statusAnswer = z
  .strictObject({
    stream_id: textLike(STREAM_ID),
    status,
    reason: optional(textLike("failing", "`asked`, `failing` for three days, or `gone`: it answered 410.")),
  })
  .meta({ id: "SignalStreamStatus" });

const streamId = z
  .uuid()
  .toLowerCase()
  .meta({ examples: [STREAM_ID] });
/** Other members are ignored: receivers send back what they were given, as the address of a poll. */
const wantedDelivery = z.discriminatedUnion("method", [
  z.looseObject({
    method: z.literal(PUSH),
    endpoint_url: textField(1, 2_048, { examples: ["https://receiver.example/events"] }),
    authorization_header: optional(textField(0, 2_048, { examples: ["Bearer 2YotnFZFEjr1zCsicMWpAA"] })),
  }),
  z.looseObject({ method: z.literal(POLL) }),
]);
const wantedFields = {
  delivery: wantedDelivery.optional().meta({ description: "By default the receiver polls." }),
  events_requested: optional(
    z
      .array(textField(1, 256, { examples: [SESSION_REVOKED] }))
      .min(1)
      .max(50),
  ),
  description: optional(textField(0, 100, { examples: ["Fraud detection"] })),
};
const NewStream = z.looseObject(wantedFields).default({});
const StreamChange = z.looseObject({ stream_id: streamId, ...wantedFields });
const StreamQuery = z.strictObject({ stream_id: streamId });
const StatusChange = z.looseObject({ stream_id: streamId, status });
const Verification = z.looseObject({
  stream_id: streamId,
  state: optional(textField(0, 1_024, { examples: ["x7-2"] })),
});
const Poll = z
  .looseObject({
    maxEvents: optional(
      z
        .int()
        .min(0)
        .max(1_000_000)
        .meta({ description: "At most 100 come.", examples: [10] }),
    ),
    returnImmediately: z.boolean().optional(),
    ack: z.array(z.uuid().toLowerCase()).max(MAX_SETTLED).optional(),
    setErrs: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ examples: [{}] }),
  })
  .default({});
const pollAnswer = z
  .strictObject({ sets: z.record(z.string(), textLike("e30.e30.AA")), moreAvailable: z.boolean() })
  .meta({ id: "PolledSignals", description: "RFC 8936, section 2.3: security event tokens by their `jti`." });

interface SignalDeps extends Pick<Backends, "signals"> {
  /** Throws before token-service was reached once. */
  tokenIssuer: () => string;
}

/** A transmitter of Shared Signals, for clients. Answers have the form of the specifications, without our envelope. */
export function registerSignalRoutes(app: GatewayApp, { signals, tokenIssuer }: SignalDeps): void {
  const route = routeIn(app, "Services");
  const policy = {
    auth: "authenticated",
    permissions: ["signals:receive"],
    limitClass: "account",
  } satisfies RoutePolicy;
  const raw = (description: string, content: z.ZodType) => ({
    description,
    content: { [JSON_TYPE]: content },
  });
  const streams = { 200: raw("The stream.", streamAnswer) };
  const at = (path: string) => new URL(path, tokenIssuer()).href;
  const toAnswer = ({
    id,
    clientId,
    pushUrl,
    eventsSupported,
    eventsRequested,
    eventsDelivered,
    description,
  }: Stream) => ({
    ...{ stream_id: id, iss: tokenIssuer(), aud: clientId },
    delivery:
      pushUrl === ""
        ? { method: POLL, endpoint_url: at(`/ssf/streams/${id}/poll`) }
        : { method: PUSH, endpoint_url: pushUrl },
    ...{
      events_supported: eventsSupported,
      events_requested: eventsRequested,
      events_delivered: eventsDelivered,
    },
    description,
  });
  const find = async (request: FastifyRequest, streamId: string) =>
    must((await signals.getStream({ clientId: clientIdOf(request), streamId }, request.state.call)).stream);

  route("getSignalTransmitter", "GET", "/.well-known/ssf-configuration", {
    summary: "How receivers get security events (OpenID Shared Signals Framework 1.0)",
    policy: { auth: "public", limitClass: "document" },
    answers: { 200: raw("The metadata.", configurationAnswer) },
    handler: async (_request, reply) => {
      const issuer = tokenIssuer();
      reply.header("cache-control", `public, max-age=${MAX_AGE_S}`);
      return {
        spec_version: "1_0",
        issuer,
        jwks_uri: at("/.well-known/jwks.json"),
        delivery_methods_supported: [PUSH, POLL],
        configuration_endpoint: at("/ssf/streams"),
        status_endpoint: at("/ssf/streams/status"),
        verification_endpoint: at("/ssf/streams/verify"),
        authorization_schemes: [{ spec_urn: "urn:ietf:rfc:6749" }],
        default_subjects: "ALL",
      };
    },
  });

  route("createSignalStream", "POST", "/ssf/streams", {
    summary: "Make the stream of a receiver",
    description: "A client has one, which gets what happens from then on.",
    policy: { ...policy, action: "client.stream.create" },
    schema: { body: NewStream },
    answers: { [HTTP_CREATED]: raw("The stream.", streamAnswer) },
    codes: ["conflict"],
    handler: async (request, reply) => {
      const wanted = {
        clientId: clientIdOf(request),
        ...wantedIn(request.body),
        description: request.body.description ?? "",
      };
      const { stream } = await signals.createStream(wanted, request.state.call);
      reply.code(HTTP_CREATED);
      return toAnswer(must(stream));
    },
  });

  route("getSignalStream", "GET", "/ssf/streams", {
    summary: "Show the stream of a receiver",
    policy,
    schema: { querystring: StreamQuery.partial() },
    answers: {
      200: raw("The stream, or without `stream_id` a list.", z.union([streamAnswer, z.array(streamAnswer)])),
    },
    codes: ["not_found"],
    handler: async (request) => {
      const { stream_id: wanted } = request.query;
      if (wanted !== undefined) return toAnswer(await find(request, wanted));
      return find(request, "").then(
        (stream) => [toAnswer(stream)],
        (error: unknown) => {
          if (error instanceof DomainError && error.code === "not_found") return [];
          throw error;
        },
      );
    },
  });

  for (const [name, verb] of [
    ["updateSignalStream", "PATCH"],
    ["replaceSignalStream", "PUT"],
  ] as const)
    route(name, verb, "/ssf/streams", {
      summary: verb === "PUT" ? "Replace the stream of a receiver" : "Change the stream of a receiver",
      policy: { ...policy, action: "client.stream.update" },
      schema: { body: StreamChange },
      answers: streams,
      codes: ["not_found"],
      handler: async (request) => {
        const { stream_id: id, description } = request.body;
        const change = { replaces: verb === "PUT", ...wantedIn(request.body), description };
        const name = { clientId: clientIdOf(request), streamId: id };
        const { stream } = await signals.changeStream({ ...name, ...change }, request.state.call);
        return toAnswer(must(stream));
      },
    });

  route("deleteSignalStream", "DELETE", "/ssf/streams", {
    summary: "Delete the stream of a receiver",
    policy: { ...policy, action: "client.stream.delete" },
    schema: { querystring: StreamQuery },
    answers: { [HTTP_NO_CONTENT]: { description: "It is gone." } },
    codes: ["not_found"],
    handler: async (request, reply) => {
      const name = { clientId: clientIdOf(request), streamId: request.query.stream_id };
      await signals.deleteStream(name, request.state.call);
      return reply.code(HTTP_NO_CONTENT).send();
    },
  });

  route("getSignalStreamStatus", "GET", "/ssf/streams/status", {
    summary: "Whether the receiver gets events",
    policy,
    schema: { querystring: StreamQuery },
    answers: { 200: raw("The status.", statusAnswer) },
    codes: ["not_found"],
    handler: async (request) => toStatus(await find(request, request.query.stream_id)),
  });

  route("updateSignalStreamStatus", "POST", "/ssf/streams/status", {
    summary: "Pause, disable or enable a stream",
    description: "What happens while it is paused is sent later, while it is disabled never.",
    policy: { ...policy, action: "client.stream.update" },
    schema: { body: StatusChange },
    answers: { 200: raw("The status.", statusAnswer) },
    codes: ["not_found"],
    handler: async (request) => {
      const { stream_id: streamId, status } = request.body;
      const change = { clientId: clientIdOf(request), streamId, status: STATUSES[status] };
      return toStatus(must((await signals.setStreamStatus(change, request.state.call)).stream));
    },
  });

  route("verifySignalStream", "POST", "/ssf/streams/verify", {
    summary: "Have a verification event sent",
    policy: { ...policy, action: "client.stream.verify" },
    schema: { body: Verification },
    answers: { [HTTP_NO_CONTENT]: { description: "It is on its way." } },
    codes: ["not_found"],
    handler: async (request, reply) => {
      const { stream_id: streamId, state = "" } = request.body;
      await signals.verifyStream({ clientId: clientIdOf(request), streamId, state }, request.state.call);
      return reply.code(HTTP_NO_CONTENT).send();
    },
  });

  route("pollSignals", "POST", "/ssf/streams/:id/poll", {
    summary: "Take security event tokens (RFC 8936)",
    description:
      "What is not acknowledged comes again. Waits for at most three seconds, but not while another call does.",
    policy: { ...policy, isAudited: false },
    schema: { params: z.strictObject({ id: streamId }), body: Poll },
    options: { bodyLimit: POLL_LIMIT_BYTES },
    answers: { 200: raw("What waits.", pollAnswer) },
    codes: ["not_found"],
    handler: async (request) => {
      const { maxEvents = MAX_POLLED, returnImmediately = false, ack = [], setErrs = {} } = request.body;
      const poll = {
        ...{ clientId: clientIdOf(request), streamId: request.params.id, returnImmediately },
        ...{ maxEvents, acknowledged: ack, refused: Object.keys(setErrs) },
      };
      const { tokens, moreAvailable } = await signals.pollStream(poll, request.state.call);
      return { sets: Object.fromEntries(tokens.map(({ jti, token }) => [jti, token])), moreAvailable };
    },
  });
}

/** @throws {DomainError} `forbidden` for a user. */
function clientIdOf(request: FastifyRequest): string {
  const { kind, clientId } = principalOf(request);
  if (kind !== "client") throw new DomainError("forbidden", "Streams are for clients");
  return clientId;
}

function wantedIn({ delivery, events_requested: eventsRequested = [] }: z.output<typeof NewStream>) {
  return { delivery: delivery && toDelivery(delivery), eventsRequested };
}

function toDelivery(delivery: z.output<typeof wantedDelivery>) {
  if (delivery.method === POLL) return { pushUrl: "", authorizationHeader: undefined };
  return { pushUrl: delivery.endpoint_url, authorizationHeader: delivery.authorization_header };
}

const STATUSES = {
  enabled: StreamStatus.ENABLED,
  paused: StreamStatus.PAUSED,
  disabled: StreamStatus.DISABLED,
} as const;

function toStatus({ id, status, statusReason }: Stream) {
  const name = Object.entries(STATUSES).find(([, value]) => value === status)?.[0] ?? "paused";
  return { stream_id: id, status: name, ...(statusReason !== "" && { reason: statusReason }) };
}

function must(stream: Stream | undefined): Stream {
  if (stream === undefined) throw new Error("event-service sent no stream");
  return stream;
}
