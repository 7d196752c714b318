import { validate as isUuid } from "uuid";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import type { StreamEvent } from "./event.ts";
import type { EventSource } from "./event-source.ts";

const CAEP = "https://schemas.openid.net/secevent/caep/event-type";
const RISC = "https://schemas.openid.net/secevent/risc/event-type";

export const SESSION_REVOKED = `${CAEP}/session-revoked`;
const ASSURANCE_CHANGED = `${CAEP}/assurance-level-change`;
const CREDENTIAL_CHANGED = `${CAEP}/credential-change`;

const SSF = "https://schemas.openid.net/secevent/ssf/event-type";
/** A receiver need not ask for these types (OpenID Shared Signals Framework 1.0, sections 8.1.4 and 8.1.5). */
export const VERIFICATION = `${SSF}/verification`;
export const STREAM_UPDATED = `${SSF}/stream-updated`;

/** What a receiver may ask for (CAEP 1.0, RISC 1.0). */
export const SIGNAL_TYPES = [
  SESSION_REVOKED,
  ASSURANCE_CHANGED,
  CREDENTIAL_CHANGED,
  `${RISC}/account-disabled`,
  `${RISC}/account-enabled`,
  `${RISC}/account-purged`,
  `${RISC}/identifier-changed`,
] as const;

/** The levels of `acr`: docs/decisions/login-and-assurance.md. */
const LEVELS = "urn:gatehouse:acr";

/** As a delivery stores it, in JSON. Without a subject it is about everybody. */
export interface SignalBody {
  type: string;
  userId: string;
  sessionId: string;
  streamId: string;
  event: Record<string, unknown>;
}

/** The members of an entry that are needed. */
interface Told {
  actor: { userId?: string; role?: string; sessionId?: string };
  resource: string;
  reason: string;
}

interface Signal extends Pick<SignalBody, "type" | "event"> {
  ofSession?: boolean;
}

const credential = (type: string, change: string) => (): Signal => ({
  type: CREDENTIAL_CHANGED,
  event: { credential_type: type, change_type: change },
});
const risc = (name: string) => (): Signal => ({ type: `${RISC}/${name}`, event: {} });

const ALL_REVOKED = "gatehouse.session.all_revoked.v1";

/** Which entries of the log are signals: docs/signals.md. */
const SIGNALS: Readonly<Record<string, (told: Told) => Signal>> = {
  "gatehouse.session.ended.v1": ({ reason }) => ({
    type: SESSION_REVOKED,
    event: { initiating_entity: whoEnded(reason), reason_admin: { en: reason } },
    ofSession: true,
  }),
  [ALL_REVOKED]: () => ({
    type: SESSION_REVOKED,
    event: { initiating_entity: "admin" },
  }),
  "gatehouse.session.raised.v1": ({ reason }) => {
    const [previous_level, current_level] = reason.split(" to ");
    return {
      type: ASSURANCE_CHANGED,
      event: { namespace: LEVELS, current_level, previous_level, change_direction: "increase" },
      ofSession: true,
    };
  },
  "gatehouse.user.password_changed.v1": credential("password", "update"),
  "gatehouse.user.password_reset.v1": credential("password", "update"),
  "gatehouse.user.mfa_enabled.v1": credential("app", "create"),
  "gatehouse.user.mfa_disabled.v1": credential("app", "delete"),
  "gatehouse.user.mfa_reset.v1": credential("app", "revoke"),
  "gatehouse.user.passkey_added.v1": credential("passkey", "create"),
  "gatehouse.user.passkey_removed.v1": credential("passkey", "delete"),
  "gatehouse.user.status_changed.v1": ({ reason }) =>
    risc(reason.startsWith("disabled") ? "account-disabled" : "account-enabled")(),
  "gatehouse.user.account_deleted.v1": risc("account-purged"),
  "gatehouse.user.email_changed.v1": risc("identifier-changed"),
  "gatehouse.user.email_change_undone.v1": risc("identifier-changed"),
};

const BY_ADMINISTRATORS = [
  "ended_by_admin",
  "account_disabled",
  "mfa_reset",
  "role_changed",
  "password_change_required",
  "operator",
];
const BY_RULE = ["session_limit", "refresh_reuse", "replaced", "trust_ended", "ended_by_provider"];
/** The user may have done this, an administrator or a rule. */
const BY_ANYBODY = ["account_deleted", "passkey_removed", "credentials_changed"];

/** CAEP 1.0, section 2. @returns undefined if nobody can tell: the actor of such an entry is the user, whoever ended the session. */
function whoEnded(reason: string): "admin" | "policy" | "user" | undefined {
  if (BY_ANYBODY.includes(reason)) return undefined;
  if (BY_ADMINISTRATORS.includes(reason)) return "admin";
  return BY_RULE.includes(reason) ? "policy" : "user";
}

/** The signals of all logs, with the ids and places of their events. */
export function signalsIn(
  events: Pick<EventSource, "after" | "grown">,
): Pick<EventSource, "after" | "grown"> {
  return {
    get grown() {
      return events.grown;
    },
    async after(places) {
      const read = await events.after(places);
      return { ...read, events: read.events.flatMap((event) => toSignal(event) ?? []) };
    },
  };
}

/** @returns undefined for what is none, also because nobody can tell whom it is about. */
export function toSignal(event: StreamEvent): StreamEvent | undefined {
  const make = SIGNALS[event.type];
  if (make === undefined) return undefined;
  const { data, time } = JSON.parse(event.body) as { data: Partial<Told> & { kind: string }; time: string };
  const { kind, actor = {}, resource = "", reason = "" } = data;
  // The routes file may give the action of a forwarded call the same name.
  if (kind !== "event") return undefined;
  // An empty subject is everybody, and another one could not be signed, which would hold back all that follows.
  if (event.type !== ALL_REVOKED && !isUuid(resource)) return undefined;
  const signal = make({ actor, resource, reason });
  const { type, ofSession = false } = signal;
  const userId = event.type === ALL_REVOKED ? "" : resource;
  const body: SignalBody = {
    ...{ type, userId, streamId: "" },
    sessionId: ofSession ? (actor.sessionId ?? "") : "",
    event: {
      event_timestamp: Math.floor(new Date(time).getTime() / 1_000),
      ...initiator(signal, actor, userId),
    },
  };
  return { ...event, type, subject: userId, body: JSON.stringify(body) };
}

/** An event that no log has. */
export function signalAboutStream(
  streamId: string,
  { type, event }: Pick<SignalBody, "type" | "event">,
  receivedAt: Date,
): StreamEvent {
  const body: SignalBody = { type, userId: "", sessionId: "", streamId, event };
  return { id: uuidv7(), log: 0, sequence: 0, type, subject: "", body: JSON.stringify(body), receivedAt };
}

/** Of CAEP's events. */
function initiator({ type, event }: Signal, actor: Told["actor"], userId: string): Record<string, unknown> {
  if (!type.startsWith(CAEP) || "initiating_entity" in event) return event;
  const isOther = actor.userId !== undefined && actor.userId !== userId;
  return { ...event, initiating_entity: isOther ? "admin" : "user" };
}
