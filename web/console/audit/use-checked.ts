import { type QueryClient, skipToken, useQuery, useQueryClient } from "@tanstack/react-query";
import { useReading } from "../../session/reading.tsx";
import { type Call, useSession } from "../../session/session.ts";
import { type Alarm, type Checked, checkEntry, checkLog } from "./check-log.ts";

/** All that is known of the log. */
const AUDIT = ["audit"];
const ALARM = [...AUDIT, "alarm"];
const LOG_MS = 30_000;
/** A checkpoint is about a second away. */
const WAITING_MS = 2_000;
const LATE_MS = 30_000;
const USUAL_READINGS = 30;

/** The first one stays until the person checks again: an answer that is right later excuses none that was wrong. */
export function useAlarm(): Alarm | undefined {
  return useQuery<Alarm>({ queryKey: ALARM, queryFn: skipToken, staleTime: Infinity, gcTime: Infinity }).data;
}

/** Forgets everything, also an alarm, and asks again for the log and for what the page shows. */
export function useCheckAgain(): () => void {
  const { call } = useSession();
  const queries = useQueryClient();
  return () =>
    void queries.resetQueries({ queryKey: AUDIT }).then(() =>
      queries.prefetchQuery({
        queryKey: LOG.queryKey,
        queryFn: (context) => LOG.read(call, context),
        staleTime: LOG_MS,
      }),
    );
}

/** The log as a whole, now and then again. */
export function useLog() {
  return useReading({
    ...LOG,
    refetchInterval: ({ state }) => (state.data?.kind === "waiting" ? WAITING_MS : LOG_MS),
  });
}

const LOG = {
  queryKey: [...AUDIT, "log"],
  read: (call: Call, { client }: { client: QueryClient }) =>
    checkLog(call).then((checked) => sounded(client, checked)),
};

/** One entry, until it is proven. It waits for the log. */
export function useEntry(id: string) {
  const log = useLog();
  const entry = useReading({
    queryKey: [...AUDIT, "entry", id],
    read: (call, { client }) => checkEntry(call, id).then((checked) => sounded(client, checked)),
    enabled: log.data !== undefined,
    // Each reading is an entry of the log.
    staleTime: Infinity,
    refetchInterval: ({ state }) =>
      state.data?.kind === "waiting" && (state.dataUpdateCount < USUAL_READINGS ? WAITING_MS : LATE_MS),
  });
  return { log, entry };
}

function sounded<T>(queries: QueryClient, checked: Checked<T>): Checked<T> {
  if (checked.kind === "alarm")
    queries.setQueryData<Alarm>(ALARM, (former: Alarm | undefined) => former ?? checked.alarm);
  return checked;
}
