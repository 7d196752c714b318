import { type QueryClient, queryOptions, skipToken, useQuery, useQueryClient } from "@tanstack/react-query";
import { type Session, useSession } from "../../session/session.ts";
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
    void queries
      .resetQueries({ queryKey: AUDIT })
      .then(() => queries.prefetchQuery({ ...logQuery(call), staleTime: LOG_MS }));
}

/** The log as a whole, now and then again. */
export function useLog() {
  const { call } = useSession();
  return useQuery({
    ...logQuery(call),
    refetchInterval: ({ state }) => (state.data?.kind === "waiting" ? WAITING_MS : LOG_MS),
  });
}

const logQuery = (call: Session["call"]) =>
  queryOptions({
    queryKey: [...AUDIT, "log"],
    queryFn: ({ client }) => checkLog(call).then((checked) => sounded(client, checked)),
  });

/** One entry, until it is proven. It waits for the log. */
export function useEntry(id: string) {
  const { call } = useSession();
  const log = useLog();
  const entry = useQuery({
    queryKey: [...AUDIT, "entry", id],
    queryFn: ({ client }) => checkEntry(call, id).then((checked) => sounded(client, checked)),
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
