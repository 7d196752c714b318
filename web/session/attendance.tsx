import { focusManager } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { textOf, useLanguage } from "../ui/text.ts";
import { useSession } from "./session.ts";

/** Unless sessions end sooner without use. */
const ATTENDED_MS = 5 * 60_000;
/** What only a person does. Pointers move by themselves when rows move below them. */
const SIGNS = ["pointerdown", "keydown", "wheel"] as const;

/**
 * From now on whatever repeats itself waits while nobody uses the page: its calls would keep the session of an empty chair. It goes on, at
 * once, with the first sign of a person. Queries wait by themselves; other loops use `attended`.
 */
function watchAttendance(attendedMs: number): void {
  focusManager.setEventListener((setAttended) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const note = () => {
      clearTimeout(timer);
      if (!document.hidden) timer = setTimeout(setAttended, attendedMs, false);
      setAttended(!document.hidden);
    };
    note();
    for (const name of SIGNS) addEventListener(name, note, { passive: true, capture: true });
    document.addEventListener("visibilitychange", note);
    return () => {
      clearTimeout(timer);
      for (const name of SIGNS) removeEventListener(name, note, { capture: true });
      document.removeEventListener("visibilitychange", note);
    };
  });
}

export const useAttended = (): boolean =>
  useSyncExternalStore(
    (changed) => focusManager.subscribe(changed),
    () => focusManager.isFocused(),
  );

/** Resolves when somebody uses the page, at once if somebody does, and when `signal` says that nobody waits. */
export async function attended(signal: AbortSignal): Promise<void> {
  while (!focusManager.isFocused() && !signal.aborted)
    await new Promise<void>((resolve) => {
      const stop = focusManager.subscribe(() => {
        stop();
        resolve();
      });
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
}

/**
 * A page that nobody uses does not keep a session for longer than a session lasts without use. It says so while it waits, and covers
 * nothing that a press could miss when that goes.
 */
export function Attendance() {
  useLanguage();
  const { tokenLifetimeMs } = useSession();
  const [attendedMs, setAttendedMs] = useState(ATTENDED_MS);
  const isAttended = useAttended();
  useEffect(() => watchAttendance(attendedMs), [attendedMs]);
  useEffect(() => {
    let isGone = false;
    tokenLifetimeMs().then(
      (ms) => isGone || setAttendedMs(Math.min(ATTENDED_MS, 2 * ms)),
      // Of a session that has ended, or without a network.
      () => undefined,
    );
    return () => {
      isGone = true;
    };
  }, [tokenLifetimeMs]);
  return <div role="status">{!isAttended && <p className="idle">{textOf("states.idle")}</p>}</div>;
}
