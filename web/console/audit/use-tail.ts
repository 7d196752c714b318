import { useEffect, useRef, useState } from "react";
import type { AuditEntry } from "../../../examples/typescript-client/generated/gatehouse.ts";
import { useSession } from "../../session/session.ts";
import { attended } from "../../ui/attended.tsx";
import { type AuditSearch, queryOf } from "./audit-search.ts";

export const MAX_ROWS = 500;
const PERIOD_MS = 2_000;
const MAX_BACKOFF_MS = 30_000;

interface Tail {
  entries: readonly AuditEntry[];
  /** Older ones that were let go. */
  dropped: number;
  state: { kind: "starting" | "live" | "interrupted"; why?: unknown };
  /** The last interruption that is over. Nothing was lost: it went on at the same place. */
  gap?: { from: string; to: string };
}

interface Answer {
  entries: AuditEntry[];
  nextAfter: number;
  size: number;
}

/** Follows the log from now on, by number, so an interruption or a pause loses nothing. */
export function useTail(search: AuditSearch, isPaused: boolean): Tail {
  const { call } = useSession();
  const [tail, setTail] = useState<Tail>({ entries: [], dropped: 0, state: { kind: "starting" } });
  const place = useRef<number>(undefined);
  const filters = queryOf(search);
  useEffect(() => {
    if (isPaused) return;
    const stop = new AbortController();
    const { signal } = stop;
    let interruptedAt: string | undefined;
    const step = async (): Promise<number> => {
      const after = place.current === undefined ? "" : `&after=${place.current}`;
      const answer = await call<Answer>("GET", `/admin/audit/tail?${filters}${after}`);
      if (signal.aborted) return 0;
      place.current = answer.nextAfter;
      const gap = interruptedAt && { from: interruptedAt, to: new Date().toISOString() };
      interruptedAt = undefined;
      setTail((former) => grown(former, answer.entries, gap || former.gap));
      return answer.nextAfter < answer.size ? 0 : PERIOD_MS;
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
            setTail((former) => ({ ...former, state: { kind: "interrupted", why: error } }));
            return Math.min(MAX_BACKOFF_MS, 500 * 2 ** failures);
          },
        );
        await pause(pauseMs, signal);
      }
    };
    void follow();
    return () => stop.abort();
  }, [call, filters, isPaused]);
  return tail;
}

function grown(former: Tail, newer: readonly AuditEntry[], gap: Tail["gap"]): Tail {
  const all = [...newer.toReversed(), ...former.entries];
  const entries = all.slice(0, MAX_ROWS);
  const dropped = former.dropped + all.length - entries.length;
  return { entries, dropped, state: { kind: "live" }, ...(gap !== undefined && { gap }) };
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
