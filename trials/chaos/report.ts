import type { Call, History } from "./history.ts";
import type { MadeFault } from "./plan.ts";

/** What a run knows beside its history. */
export interface Circumstances {
  seed: number;
  seconds: number;
  /** On the clock of the calls. */
  faults: readonly MadeFault[];
  /** By process: the lines of its log. */
  logs: ReadonlyMap<string, readonly string[]>;
}

/** A fault that ended this long before a call may still be felt: connections are tried again for as long. */
const BEFORE_MS = 15_000;
const CALLS_MAX = 20;
const LINES_MAX = 20;
const LINE_CHARACTERS = 400;
const BROKEN_MAX = 3;

/**
 * Everything that is known of what broke a rule, for whoever has nothing but the message of the assertion.
 *
 * @param broken what the rule returned: it names calls by their trace ids, or else sessions or users.
 */
export function report(broken: readonly string[], history: History, circumstances: Circumstances): string {
  const { seed, seconds } = circumstances;
  const reported = broken.slice(0, BROKEN_MAX).map((text) => reportOne(text, history, circumstances));
  const more = broken.length > BROKEN_MAX ? [`and ${broken.length - BROKEN_MAX} more`] : [];
  return [
    `${broken.length} times, with CHAOS_SEED=${seed} CHAOS_SECONDS=${seconds}`,
    ...reported,
    ...more,
  ].join("\n");
}

function reportOne(text: string, { calls, entries }: History, { faults, logs }: Circumstances): string {
  const byTrace = calls.filter(({ traceId }) => text.includes(traceId));
  const named = byTrace.length > 0 ? byTrace : calls.filter((call) => namesOf(call).some(isIn(text)));
  if (named.length === 0) return `- ${text}`;
  const fromMs = Math.min(...named.map(({ startMs }) => startMs)) - BEFORE_MS;
  const toMs = Math.max(...named.map(({ endMs }) => endMs));
  const isDuring = ({ startMs, endMs }: { startMs: number; endMs: number }) =>
    startMs <= toMs && endMs >= fromMs;
  const names = new Set(named.flatMap(namesOf));
  const traces = new Set(named.map(({ traceId }) => traceId));
  const related = calls
    .filter((call) => isDuring(call) && namesOf(call).some((name) => names.has(name)))
    .toSorted((a, b) => a.startMs - b.startMs);
  const lines = [...logs].flatMap(([process, all]) =>
    all
      .filter((line) => [...traces].some((trace) => line.includes(trace)))
      .map((line) => `${process} ${line}`),
  );
  const audited = entries.filter(({ traceId }) => traces.has(traceId)).map((entry) => JSON.stringify(entry));
  return [
    `- ${text}`,
    ...indented("faults around it", faults.filter(isDuring).map(faultText)),
    ...indented("calls of the same session, user or secret", related.slice(-CALLS_MAX).map(described)),
    ...indented("its entries", audited.slice(0, LINES_MAX)),
    ...indented("its lines in the logs", lines.slice(0, LINES_MAX)),
  ].join("\n");
}

const isIn = (text: string) => (name: string) => text.includes(name);

const indented = (title: string, lines: readonly string[]) => [
  `  ${title}: ${lines.length === 0 ? "none" : ""}`.trimEnd(),
  ...lines.map((line) => `    ${line.slice(0, LINE_CHARACTERS)}`),
];

const faultText = ({ deed, whom, startMs, endMs }: MadeFault) =>
  `${Math.round(startMs)}-${Math.round(endMs)} ms ${deed} ${whom}`;

/** What calls may share. */
const namesOf = ({ userId, sessionId, presented, given, value, secrets = [] }: Call): string[] =>
  [userId, sessionId, presented?.sessionId, given?.sessionId, value, ...secrets].filter(
    (name) => name !== undefined && name !== "",
  ) as string[];

/** A call in one line, with all that another one may share with it. */
export const described = ({ answer, ...call }: Call) =>
  [
    `${call.kind} ${Math.round(call.startMs)}-${Math.round(call.endMs)} ms`,
    answer === undefined ? "no answer" : `${answer.status} ${answer.code ?? ""} request ${answer.requestId}`,
    `trace ${call.traceId} user ${call.userId} session ${call.sessionId ?? call.presented?.sessionId ?? ""}`,
    ...(call.presented === undefined ? [] : [`generation ${call.presented.generation}`]),
    ...(call.isAttack ? ["attack"] : []),
    ...(call.value === undefined ? [] : [call.value]),
    ...(call.secrets ?? []),
  ].join(" ");
