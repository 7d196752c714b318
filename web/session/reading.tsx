import {
  type QueryFunctionContext,
  type QueryKey,
  type UseQueryOptions,
  type UseQueryResult,
  useQuery,
} from "@tanstack/react-query";
import {
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { Button } from "../ui/button.tsx";
import { textOf, useLanguage } from "../ui/text.ts";
import { type Call, useSession } from "./session.ts";

/**
 * Why readings that repeat themselves stop. `proof`: they need a fresh proof of the person. `forbidden`: the person may not
 * read this. Each refusal is an entry of the audit log, so nothing goes on refusing.
 */
export function stopOf(error: unknown): "proof" | "forbidden" | undefined {
  if (!(error instanceof GatehouseError)) return undefined;
  if (error.code === "step_up_required" || error.code === "cancelled") return "proof";
  return error.status === 403 ? "forbidden" : undefined;
}

type ReadSoFar<T> = Pick<
  UseQueryResult<T>,
  "data" | "error" | "isPending" | "isError" | "isFetching" | "fetchStatus" | "dataUpdatedAt" | "refetch"
>;

interface Reading<T>
  extends Pick<UseQueryOptions<T>, "queryKey" | "enabled" | "staleTime" | "refetchInterval"> {
  read: (call: Call, context: QueryFunctionContext) => Promise<T>;
}

/**
 * A query whose calls ask the person for a proof only if the person has begun them: by opening the page, or by `refetch`.
 * What repeats itself stops when it is refused, until the person goes on.
 */
export function useReading<T>({ read, refetchInterval, ...options }: Reading<T>): ReadSoFar<T> {
  const { call, quietCall } = useSession();
  const isAsked = useRef(false);
  const query = useQuery<T>({
    ...options,
    queryFn: (context) => read(isAsked.current || isFirst(context) ? call : quietCall, context),
    refetchInterval: (of) => {
      if (stopOf(of.state.error) !== undefined) return false;
      return typeof refetchInterval === "function" ? refetchInterval(of) : refetchInterval;
    },
    refetchOnWindowFocus: ({ state }) => stopOf(state.error) === undefined,
    refetchOnReconnect: ({ state }) => stopOf(state.error) === undefined,
  });
  const refetch: typeof query.refetch = (how) => {
    isAsked.current = true;
    return query.refetch(how).finally(() => {
      isAsked.current = false;
    });
  };
  useStopped(query.fetchStatus === "idle" && stopOf(query.error) === "proof", (how) =>
    how === "quietly" ? query.refetch() : refetch(),
  );
  const { data, error, isPending, isError, isFetching, fetchStatus, dataUpdatedAt } = query;
  return { data, error, isPending, isError, isFetching, fetchStatus, dataUpdatedAt, refetch };
}

function isFirst({ client, queryKey }: { client: QueryFunctionContext["client"]; queryKey: QueryKey }) {
  const state = client.getQueryState(queryKey);
  return state === undefined || state.dataUpdateCount + state.errorUpdateCount === 0;
}

type GoOn = (how: "quietly" | "asking") => unknown;

/** The readings of a page that wait for a proof. */
class Stopped {
  readonly #waiting = new Set<GoOn>();
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  };

  get count(): number {
    return this.#waiting.size;
  }

  add(goOn: GoOn): () => void {
    this.#waiting.add(goOn);
    this.#changed();
    return () => {
      this.#waiting.delete(goOn);
      this.#changed();
    };
  }

  goOn(how: "quietly" | "asking"): void {
    for (const goOn of [...this.#waiting]) goOn(how);
  }

  #changed(): void {
    for (const changed of this.#listeners) changed();
  }
}

const StoppedContext = createContext<Stopped | undefined>(undefined);

function useStoppedReadings(): Stopped {
  const stopped = useContext(StoppedContext);
  if (stopped === undefined) throw new Error("rendered outside of a frame");
  return stopped;
}

export function StoppedReadings({ children }: { children: ReactNode }) {
  const [stopped] = useState(() => new Stopped());
  return <StoppedContext value={stopped}>{children}</StoppedContext>;
}

/** While it waits for a proof, the page offers to go on. */
export function useStopped(isStopped: boolean, goOn: GoOn): void {
  const stopped = useStoppedReadings();
  const latest = useRef(goOn);
  useEffect(() => {
    latest.current = goOn;
  });
  useEffect(() => (isStopped ? stopped.add((how) => latest.current(how)) : undefined), [stopped, isStopped]);
}

/** What has stopped goes on with a press, or with a proof that was given for something else. */
export function ProofWanted() {
  useLanguage();
  const session = useSession();
  const stopped = useStoppedReadings();
  const count = useSyncExternalStore(stopped.subscribe, () => stopped.count);
  const isProving = useSyncExternalStore(session.subscribe, () => session.stepUp !== undefined);
  const wasProving = useRef(false);
  useEffect(() => {
    if (wasProving.current && !isProving) stopped.goOn("quietly");
    wasProving.current = isProving;
  }, [stopped, isProving]);
  return (
    <div role="status">
      {count > 0 && (
        <div className="notice">
          <p>{textOf("states.stopped")}</p>
          <div className="buttons">
            <Button size="slim" onClick={() => stopped.goOn("asking")}>
              {textOf("states.confirm")}
            </Button>
          </div>
        </div>
      )}
    </div>
  );
}
