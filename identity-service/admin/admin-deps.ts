import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { Throttle } from "../throttle/throttle.ts";

/** What the use cases of administrators need. */
export interface AdminDeps extends EndSessionsDeps {
  throttle: Pick<Throttle, "clear" | "forget">;
  wakeMailWorker: () => void;
}
