/** What this tab knows of the session. In memory only. */
export interface Access {
  token: string;
  /** Measured by `now()`. */
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
  announce(epoch: number): Promise<void>;
  post(news: News<U>): void;
  close(): void;
}

const MAX_WAIT_MS = 30_000;
/** Where there are no locks: a lease in storage, as long as a refresh may take. Nothing secret is in it. */
const LEASE_MS = 10_000;
/** Until what a tab has written is what every tab reads. */
const SETTLE_MS = 50;

/**
 * One lock decides which tab may refresh. The names of other locks show the newest token: the tab that gets the first lock can
 * read them while a message is still under way, and the browser releases them when their tab closes or crashes.
 */
export function createTabs<U>(name: string, onNews: (news: News<U>) => void): Tabs<U> {
  // Absent in insecure contexts and in browsers before 2022.
  const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
  const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(name);
  if (channel !== undefined) channel.onmessage = ({ data }) => onNews(data as News<U>);
  const prefix = `${name} `;
  let release = () => {};
  let announced = 0;
  let queue: Promise<unknown> = Promise.resolve();

  return {
    alone(work) {
      if (locks !== undefined)
        return locks.request(name, { signal: AbortSignal.timeout(MAX_WAIT_MS) }, work) as ReturnType<
          typeof work
        >;
      const turn = queue.then(() => withLease(`${name} lease`, work));
      queue = turn.catch(() => undefined);
      return turn;
    },
    async newestEpoch() {
      const { held = [] } = (await locks?.query()) ?? {};
      const epochs = held.map((lock) =>
        lock.name?.startsWith(prefix) ? Number(lock.name.slice(prefix.length)) : 0,
      );
      return Math.max(0, ...epochs);
    },
    announce(epoch) {
      if (locks === undefined || epoch === announced) return Promise.resolve();
      const former = release;
      announced = epoch;
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
    post: (news) => channel?.postMessage(news),
    close() {
      release();
      channel?.close();
    },
  };
}

const wait = (ms: number) => new Promise((go) => setTimeout(go, ms));

/** Another tab that crashed holds it until it ends. Two that write at once both read who was last. */
async function withLease<T>(key: string, work: () => Promise<T>): Promise<T> {
  const storage = sharedStorage();
  const mine = `${Math.random()}`;
  const isMine = () => storage === undefined || storage.getItem(key)?.startsWith(`${mine} `) === true;
  for (const endMs = Date.now() + MAX_WAIT_MS; ; ) {
    const [, until = 0] = storage?.getItem(key)?.split(" ") ?? [];
    if (Number(until) < Date.now()) storage?.setItem(key, `${mine} ${Date.now() + LEASE_MS}`);
    await wait(SETTLE_MS * (1 + Math.random()));
    if (isMine()) break;
    if (Date.now() > endMs) throw new DOMException("another tab does not end", "TimeoutError");
  }
  try {
    return await work();
  } finally {
    if (isMine()) storage?.removeItem(key);
  }
}

function sharedStorage(): Storage | undefined {
  try {
    return (globalThis as { localStorage?: Storage }).localStorage;
  } catch {
    return undefined; // Its use is forbidden.
  }
}
