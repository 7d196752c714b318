import { createHash } from "node:crypto";
import type { Call, CallKind, Entry, History, Received, ReceivedEvent, Webhook } from "./history.ts";
import { described } from "./report.ts";

/** A revocation is felt everywhere at the latest this long after its answer: the verifiers' trust in memory. */
export const REVOCATION_BOUND_MS = 3_000;
const CODES_OF_USER = 10;
/** Unless the route says otherwise. */
export const APPROVAL_LIFE_MS = 300_000;
const NEVER = Number.POSITIVE_INFINITY;

/** A login at a provider goes on, or fails, by redirects. */
const isSuccess = ({ answer }: Call) =>
  answer !== undefined && answer.status < 400 && answer.code === undefined;
const CHANGES: readonly CallKind[] = [
  "register",
  "login",
  "logout",
  "refresh",
  "profile",
  "pay",
  "forgot",
  "reset",
  "set up",
  "enable",
  "ask",
  "approve",
  "approved",
  "verify",
  "return",
  "exchange",
];
const isChange = ({ kind }: Call) => CHANGES.includes(kind);
const isPayment = ({ kind }: Call) => kind === "pay" || kind === "approved";

/** When a session was ended. */
interface End {
  /** The first call began that may have ended it. */
  earliestMs: number;
  /** A client knew that it was over. */
  knownMs: number;
}

/** A view of a history that the rules share. */
interface View extends History {
  endOf(sessionId: string): End;
  callOf: ReadonlyMap<string, Call>;
  receivedOf(call: Call): readonly Received[];
  /** Calls about the same value or with the same secret. */
  sharing(call: Call): readonly Call[];
  entriesOf(call: Call): { intents: Entry[]; outcomes: Entry[] };
}

type Rule = (view: View) => string[];

/** An intent is no event: its outcome follows. */
const isEvent = ({ kind }: Entry) => kind === "outcome" || kind === "event";

/** Events of the log that a webhook has not been sent. */
export function missingOf({ after, received }: Webhook, entries: readonly Entry[]): Entry[] {
  const sent = new Set(received.map(({ id }) => id));
  return entries.filter(
    (entry) => isEvent(entry) && entry.sequence > (after[entry.log] ?? 0) && !sent.has(entry.id),
  );
}

/** Each is a promise. A rule returns what breaks it. */
export const RULES = {
  "nothing succeeds with a revoked token after the bound": (view) =>
    view.calls
      .filter((call) => {
        if (call.sessionId === undefined) return false;
        const gotThrough = isSuccess(call) || view.receivedOf(call).length > 0;
        return gotThrough && call.startMs > view.endOf(call.sessionId).knownMs + REVOCATION_BOUND_MS;
      })
      .map(described),

  "nothing refreshes a session that is over": (view) =>
    view.calls
      .filter(
        (call) =>
          call.presented !== undefined &&
          isSuccess(call) &&
          call.startMs > view.endOf(call.presented.sessionId).knownMs,
      )
      .map(described),

  "a session has one live leaf": (view) => {
    const refreshes = view.calls.filter((call) => call.given !== undefined && call.presented !== undefined);
    const strays = refreshes.filter(
      ({ presented, given }) =>
        given?.sessionId !== presented?.sessionId || given?.generation !== (presented?.generation ?? 0) + 1,
    );
    const forked = [
      ...Map.groupBy(
        view.calls.flatMap(({ given }) => given ?? []),
        ({ sessionId, generation }) => `${sessionId} ${generation}`,
      ),
    ].filter(([, leaves]) => new Set(leaves.map(({ claims }) => claims)).size > 1);
    const late: Call[] = [];
    for (const [, calls] of Map.groupBy(refreshes, ({ presented }) => presented?.sessionId)) {
      const byEnd = calls.toSorted((a, b) => a.endMs - b.endMs);
      let next = 0;
      let newest = 0;
      for (const call of calls.toSorted((a, b) => a.startMs - b.startMs)) {
        for (; (byEnd[next]?.endMs ?? NEVER) < call.startMs; next += 1)
          newest = Math.max(newest, byEnd[next]?.presented?.generation ?? 0);
        if ((call.presented?.generation ?? 0) < newest) late.push(call);
      }
    }
    return [...[...strays, ...late].map(described), ...forked.map(([leaf]) => `forked: ${leaf}`)];
  },

  "a secret for one use counts once": (view) =>
    [...usesOf(view.calls.filter(isSuccess)).values()]
      .filter((uses) => uses.length > 1)
      .flatMap((uses) => uses.map(described)),

  "an upstream learns who the token names": (view) =>
    view.received
      .filter(({ traceId, userId, sessionId, role }) => {
        const call = view.callOf.get(traceId);
        return call?.userId !== userId || call.sessionId !== sessionId || role !== "USER";
      })
      .map((received) => JSON.stringify(received)),

  "a payment reaches the upstream once, or again with its key": (view) =>
    [
      ...Map.groupBy(
        view.received.filter(({ reference }) => reference !== undefined),
        ({ reference }) => reference,
      ),
    ]
      .filter(([, all]) => {
        const [{ idempotencyKey } = {}] = all;
        const isRepeated =
          idempotencyKey !== undefined && all.every((one) => one.idempotencyKey === idempotencyKey);
        return all.length > 1 && !isRepeated;
      })
      .map(([reference, all]) => `${reference}: ${all.length} times`),

  "a payment that was answered has reached the upstream": (view) =>
    view.calls
      .filter((call) => isPayment(call) && isSuccess(call) && view.receivedOf(call).length === 0)
      .map(described),

  "an approval is of one payment, given before it, and passes once": (view) => {
    const approvals = new Map(view.approvals.map((approval) => [approval.id, approval]));
    const given = new Map<string, number>();
    for (const { kind, value, startMs } of view.calls)
      if (kind === "approve" && value !== undefined)
        given.set(value, Math.min(given.get(value) ?? NEVER, startMs));
    const wrong = view.received.filter((received) => {
      const call = view.callOf.get(received.traceId);
      if (call?.kind !== "approved") return received.approvalId !== undefined;
      const approval = approvals.get(received.approvalId ?? "");
      const isOfPayment =
        approval !== undefined &&
        approval.userId === received.userId &&
        approval.digest === received.approvalDigest &&
        createHash("sha256").update(approval.transaction).digest("hex") === approval.digest &&
        JSON.parse(approval.transaction).fields["/reference"] === received.reference;
      return !(isOfPayment && (given.get(received.reference ?? "") ?? NEVER) < received.atMs);
    });
    const shared = [
      ...Map.groupBy(
        view.received.filter(({ approvalId }) => approvalId !== undefined),
        ({ approvalId }) => approvalId,
      ),
    ].filter(([, all]) => new Set(all.map(({ reference }) => reference)).size > 1);
    return [
      ...wrong.map((received) => JSON.stringify(received)),
      ...shared.map(([id]) => `approval ${id} let several payments pass`),
    ];
  },

  "each approval and each login with a code has used up a code": (view) =>
    [...view.usedCodes].flatMap(([userId, used]) => {
      const given = view.approvals.filter((approval) => approval.userId === userId).length;
      const logins = view.calls.filter((call) => call.kind === "verify" && call.userId === userId);
      const least = given + logins.filter(isSuccess).length;
      // Without an answer, a login may have come to its end: once for each challenge.
      const most = given + new Set(logins.map(({ secrets }) => secrets?.[0])).size;
      const isPossible = least <= used && used <= Math.min(most, CODES_OF_USER);
      return isPossible ? [] : [`${userId}: ${given} approvals, ${least} to ${most} uses, ${used} codes`];
    }),

  "a change that was answered is audited once": (view) =>
    view.calls
      .filter((call) => {
        if (!isChange(call) || !isSuccess(call)) return false;
        const { intents, outcomes } = view.entriesOf(call);
        const [outcome] = outcomes;
        return !(
          intents.length === 1 &&
          outcomes.length === 1 &&
          outcome?.outcome === "success" &&
          outcome.httpStatus === call.answer?.status &&
          outcome.requestId === call.answer.requestId
        );
      })
      .map((call) => `${described(call)} ${JSON.stringify(view.entriesOf(call))}`),

  "a change that was refused has no entry, or what came of it": (view) =>
    view.calls
      .filter((call) => {
        if (!isChange(call) || call.answer === undefined || isSuccess(call)) return false;
        const { intents, outcomes } = view.entriesOf(call);
        // The intent was not durable in time, the call not carried out; the log closes it as unknown.
        const isLate =
          call.answer.code === "audit_unavailable" && outcomes.every(({ outcome }) => outcome === "unknown");
        // A refusal of a known caller is an entry by itself.
        const isReported = outcomes.length === 1 && outcomes[0]?.httpStatus === call.answer.status;
        const isNothing = intents.length === 0 && outcomes.length === 0;
        return intents.length > 1 || !(isNothing || isReported || (isLate && outcomes.length <= 1));
      })
      .map((call) => `${described(call)} ${JSON.stringify(view.entriesOf(call))}`),

  "a call without an answer has at most one intent and one outcome": (view) =>
    view.calls
      .filter((call) => {
        const { intents, outcomes } = view.entriesOf(call);
        // A refusal of a known caller is an entry by itself.
        const isAlone = intents.length === 0 && outcomes.some(({ outcome }) => outcome === "success");
        return call.answer === undefined && (intents.length > 1 || outcomes.length > 1 || isAlone);
      })
      .map((call) => `${described(call)} ${JSON.stringify(view.entriesOf(call))}`),

  "every effect has its intent": (view) =>
    view.calls
      .filter((call) => {
        const isPaid = isPayment(call) && view.receivedOf(call).length > 0;
        const isWritten = call.kind === "profile" && view.firstNames.get(call.userId) === call.value;
        return (isPaid || isWritten) && view.entriesOf(call).intents.length !== 1;
      })
      .map(described),

  "a change of a name that was answered stays": (view) =>
    [
      ...Map.groupBy(
        view.calls.filter(({ kind }) => kind === "profile"),
        ({ userId }) => userId,
      ),
    ].flatMap(([userId, calls]) => {
      const isOf = (call: Call) => call.value === view.firstNames.get(userId);
      const lastMs = Math.max(...calls.filter(isSuccess).map(({ startMs }) => startMs));
      // A change that ended before the last one began is overwritten. One without an answer may come at any time.
      const isPossible = calls.some(
        (call) => isOf(call) && (call.answer === undefined || call.endMs >= lastMs),
      );
      return lastMs === -NEVER || isPossible
        ? []
        : [`${userId} is ${view.firstNames.get(userId)}: ${calls.filter(isOf).map(described)}`];
    }),

  "no entry is there twice": ({ entries }) => [
    ...repeated(entries.map(({ id }) => id)),
    ...repeated(entries.map((entry) => `${entry.producerId} ${entry.producerSequence}`)),
    ...repeated(entries.flatMap(({ callId, kind }) => (callId === "" ? [] : [`${callId} ${kind}`]))),
  ],

  // What is lost with a process is the end that nobody got the answer of.
  "no gateway has a gap in what it has recorded": ({ entries }) =>
    [
      ...Map.groupBy(
        entries.filter(({ producerName }) => producerName === "gateway"),
        ({ producerId }) => producerId,
      ),
    ].flatMap(([producer, own]) => {
      const numbers = own.map(({ producerSequence }) => producerSequence).sort((a, b) => a - b);
      const gap = numbers.findIndex((number, index) => number !== index + 1);
      return gap === -1 ? [] : [`${producer} after ${gap} of ${numbers.length}`];
    }),

  "every event that a service owes is in the log, and no other": ({ entries, owedEvents }) => {
    const stored = new Set(
      entries
        .filter(({ producerName }) => ["identity-service", "token-service"].includes(producerName))
        .map(({ id }) => id),
    );
    return [
      ...owedEvents.filter((id) => !stored.has(id)).map((id) => `not in the log: ${id}`),
      ...[...stored.difference(new Set(owedEvents))].map((id) => `not owed: ${id}`),
    ];
  },

  "every entry has its number, without a gap": ({ entries, numbered }) =>
    numbered.count === entries.length && numbered.last === entries.length
      ? []
      : [`${entries.length} entries, ${numbered.count} numbers, the last is ${numbered.last}`],

  "a webhook is sent every event of the log, signed, and no other": ({ entries, webhooks }) => {
    const events = new Map(entries.filter(isEvent).map((entry) => [entry.id, entry]));
    // What the log took after it was read is not judged.
    const last = new Map<number, number>();
    for (const { log, sequence } of entries) last.set(log, Math.max(last.get(log) ?? 0, sequence));
    const isForeign = ({ id, log, sequence }: ReceivedEvent) => {
      const entry = events.get(id);
      if (entry === undefined) return sequence <= (last.get(log) ?? 0);
      return entry.log !== log || entry.sequence !== sequence;
    };
    return webhooks.flatMap((webhook) => [
      ...missingOf(webhook, entries).map((entry) => `not sent to ${webhook.url}: ${JSON.stringify(entry)}`),
      ...webhook.received
        .filter((event) => !event.isSigned || isForeign(event))
        .map((event) => `sent to ${webhook.url}: ${JSON.stringify(event)}`),
    ]);
  },

  "a webhook is first sent the events of a subject in the order of the log": ({ webhooks }) =>
    webhooks.flatMap(({ url, received }) => {
      const newest = new Map<string, number>();
      const seen = new Set<string>();
      return received
        .filter(({ id, log, sequence, subject }) => {
          const isAgain = seen.size === seen.add(id).size;
          // Nothing orders what is about nobody.
          if (isAgain || subject === "") return false;
          const before = newest.get(`${log} ${subject}`) ?? 0;
          newest.set(`${log} ${subject}`, Math.max(before, sequence));
          return sequence < before;
        })
        .map((event) => `too late at ${url}: ${JSON.stringify(event)}`);
    }),

  "our own fault is never the client's": (view) =>
    view.calls
      .filter(({ answer, ...call }) => answer !== undefined && !isExplained(view, { ...call, answer }))
      .map((call) => {
        const sessionId = call.sessionId ?? call.presented?.sessionId ?? "";
        return `${described(call)} ${view.reasons.get(sessionId) ?? ""}`;
      }),
} as const satisfies Record<string, Rule>;

export type RuleName = keyof typeof RULES;

/** @returns by rule: what breaks it. */
export function judge(history: History): Record<RuleName, string[]> {
  const view = viewOf(history);
  const found = Object.entries(RULES).map(([name, rule]) => [name, rule(view)]);
  return Object.fromEntries(found);
}

const UNAVAILABLE = [502, 503, 504];
/** Found in a redirect. */
const UNAVAILABLE_CODES = ["service_unavailable", "busy"];

/** Whether an answer is one that this client may get: a success, an honest "not now", or a refusal that it has earned. */
function isExplained(view: View, call: Call & { answer: NonNullable<Call["answer"]> }): boolean {
  const { status, code = "" } = call.answer;
  if (call.isAttack && isSuccess(call)) return false;
  if (isSuccess(call) || UNAVAILABLE.includes(status)) return true;
  if (status === 302 && UNAVAILABLE_CODES.includes(code)) return true;
  const mayBeOver = (sessionId?: string) =>
    sessionId !== undefined && view.endOf(sessionId).earliestMs < call.endMs;
  if (["token_invalid", "token_expired"].includes(code)) return mayBeOver(call.sessionId);
  if (code === "refresh_token_invalid") return mayBeOver(call.presented?.sessionId);
  if (code === "refresh_token_reused") return call.isAttack === true;
  const usedBefore = (kind: CallKind) =>
    view
      .sharing(call)
      .some(
        (other) =>
          other.traceId !== call.traceId &&
          other.kind === kind &&
          other.startMs < call.endMs &&
          mayHaveCounted(other),
      );
  switch (code) {
    case "approval_required":
      return call.kind === "ask" || (call.kind === "approved" && !wasApprovedBefore(view, call));
    case "approval_expired":
      return view
        .sharing(call)
        .some(({ kind, startMs }) => kind === "ask" && startMs + APPROVAL_LIFE_MS < call.endMs);
    case "approval_used":
      return ["approve", "approved"].includes(call.kind) && usedBefore(call.kind);
    case "email_already_registered":
      return call.kind === "register" && usedBefore("register");
    case "mfa_code_invalid":
    case "mfa_token_invalid":
      return ["approve", "verify"].includes(call.kind) && usedBefore(call.kind);
    case "oauth_code_invalid":
      return call.kind === "exchange" && usedBefore("exchange");
    case "oauth_state_invalid":
      return call.kind === "return" && usedBefore("return");
    case "reset_token_invalid":
      return call.kind === "reset" && (usedBefore("reset") || isReplaced(view, call));
    default:
      return false;
  }
}

/** A refusal uses nothing up, and so explains no other. */
const mayHaveCounted = (call: Call) =>
  isSuccess(call) ||
  (call.answer?.status ?? 500) >= 500 ||
  UNAVAILABLE_CODES.includes(call.answer?.code ?? "");

/** Of links to a new password only the newest is good, and one may have been asked for without the client's knowing. */
const isReplaced = (view: View, { userId }: Call) =>
  view.calls.filter((call) => call.kind === "forgot" && call.userId === userId && mayHaveCounted(call))
    .length > 1;

const wasApprovedBefore = (view: View, call: Call) =>
  view
    .sharing(call)
    .some((other) => other.kind === "approve" && isSuccess(other) && other.endMs < call.startMs);

function viewOf(history: History): View {
  const entries = Map.groupBy(history.entries, ({ traceId }) => traceId);
  const received = Map.groupBy(history.received, ({ traceId }) => traceId);
  const byValue = Map.groupBy(history.calls, ({ value }) => value);
  const bySecret = usesOf(history.calls);
  const ends = endsOf(history.calls);
  return {
    ...history,
    endOf: (sessionId) => ends.get(sessionId) ?? { earliestMs: NEVER, knownMs: NEVER },
    callOf: new Map(history.calls.map((call) => [call.traceId, call])),
    receivedOf: ({ traceId }) => received.get(traceId) ?? [],
    sharing: ({ value, secrets = [] }) => [
      ...(value === undefined ? [] : (byValue.get(value) ?? [])),
      ...secrets.flatMap((secret) => bySecret.get(secret) ?? []),
    ],
    entriesOf({ traceId }) {
      const own = entries.get(traceId) ?? [];
      return {
        intents: own.filter(({ kind }) => kind === "intent"),
        outcomes: own.filter(({ kind }) => kind === "outcome"),
      };
    },
  };
}

/** A logout, the reuse of a refresh token, or a reset of the password ends sessions. */
function endsOf(calls: readonly Call[]): Map<string, End> {
  const ends = new Map<string, End>();
  const note = (sessionId: string, call: Call, isKnown: boolean) => {
    const { earliestMs, knownMs } = ends.get(sessionId) ?? { earliestMs: NEVER, knownMs: NEVER };
    ends.set(sessionId, {
      earliestMs: Math.min(earliestMs, call.startMs),
      knownMs: isKnown ? Math.min(knownMs, call.endMs) : knownMs,
    });
  };
  const logins = Map.groupBy(
    calls.filter(({ given, presented }) => given !== undefined && presented === undefined),
    ({ userId }) => userId,
  );
  for (const call of calls) {
    if (call.kind === "logout" && call.sessionId !== undefined) note(call.sessionId, call, isSuccess(call));
    const reused = call.answer?.code === "refresh_token_reused";
    // Without an answer it may come late, when its token has long been exchanged: a reuse.
    if (call.presented !== undefined && (call.isAttack || reused || call.answer === undefined))
      note(call.presented.sessionId, call, reused);
    if (call.kind !== "reset") continue;
    for (const login of logins.get(call.userId) ?? []) {
      const wasBefore = login.endMs < call.startMs;
      if (login.startMs < call.endMs) note(login.given?.sessionId ?? "", call, wasBefore && isSuccess(call));
    }
  }
  return ends;
}

/** Keyed by secret. */
function usesOf(calls: readonly Call[]): Map<string, Call[]> {
  const uses = new Map<string, Call[]>();
  for (const call of calls)
    for (const secret of call.secrets ?? []) uses.set(secret, [...(uses.get(secret) ?? []), call]);
  return uses;
}

function repeated(keys: readonly string[]): string[] {
  const seen = new Set<string>();
  return keys.filter((key) => seen.size === seen.add(key).size);
}
