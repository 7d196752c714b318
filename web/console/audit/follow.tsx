import { useEffect, useRef, useState } from "react";
import type { Answer } from "#clients/api/endpoint.ts";
import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { attended, useAttended } from "../../session/attendance.tsx";
import { stopOf, useStopped } from "../../session/reading.tsx";
import { useMay, useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { explain } from "../../ui/explain.ts";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { momentText } from "../when.tsx";
import { type AuditSearch, filtersOf } from "./audit-search.ts";
import { EntryRows } from "./entry-rows.tsx";
import { type People, peopleOf } from "./entry-text.tsx";

const MAX_ROWS = 500;
const PERIOD_MS = 2_000;
const MAX_BACKOFF_MS = 30_000;

/** The log as it grows, newest first. */
export function Follow({ search }: { search: AuditSearch }) {
  const t = useText();
  const language = useLanguage();
  const [isPaused, setPaused] = useState(false);
  const { entries, people, state, dropped, gap, goOn } = useTail(search, isPaused);
  const isAttended = useAttended();
  const isStill = isPaused || !isAttended;
  const isForbidden = state.kind === "stopped" && stopOf(state.why) === "forbidden";
  const status = {
    starting: () => t("states.loading"),
    live: () => t("audit.live"),
    paused: () => t("audit.paused"),
    interrupted: () => t("audit.interrupted", { why: explain(state.why).message }),
    stopped: () => t(isForbidden ? "states.forbidden" : "audit.stopped"),
  }[isStill ? "paused" : state.kind];
  return (
    <>
      <div className="follow">
        <p
          role="status"
          className={
            (state.kind === "interrupted" || state.kind === "stopped") && !isStill ? "wrong" : "muted"
          }
        >
          <span className={state.kind === "live" && !isStill ? "pulse" : "pulse off"} aria-hidden="true" />
          {status()}
        </p>
        {isForbidden && !isPaused ? (
          <Button kind="quiet" size="slim" onClick={() => goOn()}>
            {t("states.again")}
          </Button>
        ) : (
          <Button kind="quiet" size="slim" onClick={() => setPaused(!isPaused)}>
            {t(isPaused ? "audit.resume" : "audit.pause")}
          </Button>
        )}
      </div>
      {gap !== undefined && (
        <p className="muted small">
          {t("audit.gap", { from: momentText(gap.from, language), to: momentText(gap.to, language) })}
        </p>
      )}
      <EntryRows
        entries={entries}
        people={people}
        caption={t("audit.follow")}
        empty={t("audit.nothingYet")}
      />
      {dropped > 0 && <p className="muted small">{t("audit.kept", { count: MAX_ROWS })}</p>}
    </>
  );
}

interface Tail {
  entries: readonly AuditEntry[];
  people: People;
  /** Older ones that were let go. */
  dropped: number;
  /** `stopped`: it needs a fresh proof of the person, or they may not read this. */
  state: { kind: "starting" | "live" | "interrupted" | "stopped"; why?: unknown };
  /** The last interruption that is over. Nothing was lost: it went on at the same place. */
  gap?: { from: string; to: string };
}

/** Follows all logs from now on, by number, so an interruption or a pause loses nothing. */
function useTail(search: AuditSearch, isPaused: boolean): Tail & { goOn: () => void } {
  const { call, quietCall } = useSession();
  const names = useMay()("users:read") ? "true" : undefined;
  const [tail, setTail] = useState<Tail>({
    entries: [],
    people: new Map(),
    dropped: 0,
    state: { kind: "starting" },
  });
  const place = useRef<string>(undefined);
  const filters = JSON.stringify(filtersOf(search));
  const [turn, setTurn] = useState(0);
  const isQuiet = useRef(false);
  const goOn = (how?: "quietly" | "asking") => {
    isQuiet.current = how === "quietly";
    setTail((former) => ({ ...former, state: { kind: "starting" } }));
    setTurn((former) => former + 1);
  };
  useStopped(!isPaused && tail.state.kind === "stopped" && stopOf(tail.state.why) === "proof", goOn);
  useEffect(() => {
    if (isPaused) return;
    let ask = isQuiet.current ? quietCall : call;
    isQuiet.current = false;
    const stop = new AbortController();
    const { signal } = stop;
    let interruptedAt: string | undefined;
    const step = async (): Promise<number> => {
      const query = { ...JSON.parse(filters), place: place.current, people: names };
      const asked = ask("GET /admin/audit/tail", { query });
      ask = quietCall;
      const answer = await asked;
      if (signal.aborted) return 0;
      place.current = answer.place;
      const gap = interruptedAt && { from: interruptedAt, to: new Date().toISOString() };
      interruptedAt = undefined;
      setTail((former) => grown(former, answer, gap || former.gap));
      return answer.hasMore ? 0 : PERIOD_MS;
    };
    const follow = async () => {
      let failures = 0;
      while (!signal.aborted) {
        await attended(signal);
        const pauseMs = await step().then(
          (ms) => {
            failures = 0;
            return ms;
          },
          (error: unknown) => {
            failures += 1;
            interruptedAt ??= new Date().toISOString();
            const kind = stopOf(error) === undefined ? "interrupted" : "stopped";
            if (kind === "stopped") stop.abort();
            setTail((former) => ({ ...former, state: { kind, why: error } }));
            return Math.min(MAX_BACKOFF_MS, 500 * 2 ** failures);
          },
        );
        await pause(pauseMs, signal);
      }
    };
    void follow();
    return () => stop.abort();
  }, [call, quietCall, filters, names, isPaused, turn]);
  return { ...tail, goOn };
}

function grown(former: Tail, answer: Answer<"GET /admin/audit/tail">, gap: Tail["gap"]): Tail {
  // They come log by log.
  const newest = answer.entries.toSorted(
    (a, b) =>
      b.receivedAt.localeCompare(a.receivedAt) || b.log - a.log || Number(b.sequence) - Number(a.sequence),
  );
  const all = [...newest, ...former.entries];
  const people = new Map([...former.people, ...peopleOf([answer])]);
  const entries = all.slice(0, MAX_ROWS);
  const dropped = former.dropped + all.length - entries.length;
  return { entries, people, dropped, state: { kind: "live" }, ...(gap !== undefined && { gap }) };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
