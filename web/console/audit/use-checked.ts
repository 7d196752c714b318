import {
  type QueryClient,
  type QueryFunctionContext,
  type QueryKey,
  skipToken,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { useReading } from "../../session/reading.tsx";
import { type Call, useSession, useUser } from "../../session/session.ts";
import { endAlarm, keepAlarm, readAlarm, storedAlarm, subscribeToAlarm } from "./alarm-memory.ts";
import {
  type Alarm,
  type Checked,
  checkEntry,
  checkLog,
  type LogState,
  type ProvenEntry,
} from "./check-log.ts";

/** All that is known of the log. */
const AUDIT = ["audit"];
const ALARM = [...AUDIT, "alarm"];
const LOG_MS = 30_000;
/** A checkpoint is about a second away. */
const WAITING_MS = 2_000;
const LATE_MS = 30_000;
const USUAL_READINGS = 30;

/**
 * The first one stays until the person has ended it, or has checked again with a good result: an answer that is right later excuses none
 * that was wrong. It stays when the page is loaded again, and in other tabs.
 */
export function useAlarm(): Alarm | undefined {
  const { id: userId } = useUser();
  const ofPage = useQuery<Alarm>({
    queryKey: ALARM,
    queryFn: skipToken,
    staleTime: Infinity,
    gcTime: Infinity,
  }).data;
  useEffect(() => {
    if (ofPage !== undefined) keepAlarm(ofPage, userId);
  }, [ofPage, userId]);
  const stored = useSyncExternalStore(subscribeToAlarm, storedAlarm);
  const kept = useMemo(() => (stored === null ? undefined : readAlarm(stored, userId)), [stored, userId]);
  return kept ?? ofPage;
}

/** Whatever was found is over, also after a reload. */
export function useEndAlarm(): () => void {
  const queries = useQueryClient();
  return () => {
    endAlarm();
    void queries.resetQueries({ queryKey: ALARM });
  };
}

/**
 * Asks again for the log, for what the page shows and for what the alarm was about. A good answer to all of it ends the alarm.
 * @returns whether all was good. @throws {GatehouseError} if it could not be asked for: nothing ends.
 */
export function useCheckAgain(): () => Promise<boolean> {
  const { call } = useSession();
  const queries = useQueryClient();
  const alarm = useAlarm();
  const end = useEndAlarm();
  return async () => {
    const isFinding = ({ queryKey }: { queryKey: QueryKey }) => queryKey[1] !== ALARM[1];
    // The log first: with another key every entry is an alarm, too, which would hide why.
    await queries.resetQueries({ queryKey: LOG.queryKey });
    const isOther = (query: { queryKey: QueryKey }) =>
      isFinding(query) && query.queryKey[1] !== LOG.queryKey[1];
    await queries.resetQueries({ queryKey: AUDIT, predicate: isOther });
    const wanted = [LOG, ...(alarm?.entryId === undefined ? [] : [entryReading(alarm.entryId)])];
    let isGood = true;
    for (const { queryKey, read } of wanted) {
      // What the page has just asked for by itself is not asked for twice.
      const queryFn = (context: QueryFunctionContext) => read(call, context);
      const { kind } = await queries.fetchQuery<Checked<unknown>>({ queryKey, queryFn, staleTime: LOG_MS });
      isGood &&= kind === "proven";
    }
    const shown = queries.getQueriesData<Checked<unknown>>({ queryKey: AUDIT, predicate: isFinding });
    isGood &&= shown.every(([, data]) => data?.kind !== "alarm");
    if (isGood) end();
    return isGood;
  };
}

/** The log as a whole, now and then again. */
export function useLog() {
  return useReading({
    ...LOG,
    refetchInterval: ({ state }) => (state.data?.kind === "waiting" ? WAITING_MS : LOG_MS),
  });
}

interface CheckedReading<T> {
  queryKey: string[];
  read: (call: Call, context: { client: QueryClient }) => Promise<Checked<T>>;
}

const LOG: CheckedReading<LogState> = {
  queryKey: [...AUDIT, "log"],
  read: (call, { client }) => checkLog(call).then((checked) => sounded(client, checked)),
};

const entryReading = (id: string): CheckedReading<ProvenEntry> => ({
  queryKey: [...AUDIT, "entry", id],
  read: (call, { client }) => checkEntry(call, id).then((checked) => sounded(client, checked)),
});

/** One entry, until it is proven by a head of log 0. It waits for the log. */
export function useEntry(id: string) {
  const log = useLog();
  const entry = useReading({
    ...entryReading(id),
    enabled: log.data !== undefined,
    // Each reading is an entry of the log.
    staleTime: Infinity,
    refetchInterval: ({ state: { data, dataUpdateCount } }) =>
      (data?.kind === "waiting" || (data?.kind === "proven" && data.found.head === undefined)) &&
      (dataUpdateCount < USUAL_READINGS ? WAITING_MS : LATE_MS),
  });
  return { log, entry };
}

function sounded<T>(queries: QueryClient, checked: Checked<T>): Checked<T> {
  if (checked.kind === "alarm")
    queries.setQueryData<Alarm>(ALARM, (former: Alarm | undefined) => former ?? checked.alarm);
  return checked;
}
