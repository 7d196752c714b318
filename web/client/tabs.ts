/** What this tab knows of the session. In memory only. */
export interface Access {
  token: string;
  /** Of `now()`. */
  expiresAtMs: number;
  sessionId: string;
  /** Grows with each token that any tab has got. */
  epoch: number;
}

export type EndReason = "logged_out" | "expired" | "replaced";

/** Between the tabs of one origin. `U` is what they know of the user. */
export type News<U> =
  | { kind: "token"; access: Access; user: U | undefined }
  | { kind: "end"; sessionId: string; reason: EndReason }
  /** For a token of a later epoch. */
  | { kind: "ask"; after: number };

export interface Tabs<U> {
  /** Runs while no other tab does. @throws `TimeoutError` after 30 s of waiting. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** The newest token of a tab that is open, by its epoch; 0 if none has any. */
  newestEpoch(): Promise<number>;
  /** Other tabs see that this one has the token of the epoch, until it closes. 0: none. */
  hold(epoch: number): Promise<void>;
  tell(news: News<U>): void;
  close(): void;
}

const MAX_WAIT_MS = 30_000;
/** Where there are no locks: most of those who wait hear of the token that the first one gets. */
const JITTER_MS = 250;

/**
 * A lock says who may refresh. Which token is the newest is told by the names of locks, too: they are released when a tab
 * closes or crashes, and are seen by whoever gets the first lock, while a message may still be under way.
 */
export function createTabs<U>(name: string, hear: (news: News<U>) => void): Tabs<U> {
  // Absent in insecure contexts and in browsers before 2022.
  const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
  const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(name);
  if (channel !== undefined) channel.onmessage = ({ data }) => hear(data as News<U>);
  const prefix = `${name} `;
  let release = () => {};
  let held = 0;
  let queue: Promise<unknown> = Promise.resolve();

  return {
    alone(work) {
      if (locks !== undefined)
        return locks.request(name, { signal: AbortSignal.timeout(MAX_WAIT_MS) }, work) as ReturnType<
          typeof work
        >;
      const turn = queue
        .then(() => new Promise((go) => setTimeout(go, Math.random() * JITTER_MS)))
        .then(work);
      queue = turn.catch(() => undefined);
      return turn;
    },
    async newestEpoch() {
      const { held: names = [] } = (await locks?.query()) ?? {};
      const epochs = names.map((lock) =>
        lock.name?.startsWith(prefix) ? Number(lock.name.slice(prefix.length)) : 0,
      );
      return Math.max(0, ...epochs);
    },
    hold(epoch) {
      if (locks === undefined || epoch === held) return Promise.resolve();
      const former = release;
      held = epoch;
      release = () => {};
      if (epoch === 0) {
        former();
        return Promise.resolve();
      }
      return new Promise((granted, failed) => {
        const until = new Promise<void>((done) => {
          release = done;
        });
        locks
          .request(`${prefix}${epoch}`, { mode: "shared" }, () => {
            former();
            granted();
            return until;
          })
          .catch(failed);
      });
    },
    tell: (news) => channel?.postMessage(news),
    close() {
      release();
      channel?.close();
    },
  };
}
