import { DomainError } from "../service-kit/errors.ts";
import { networkOf } from "../service-kit/network-of.ts";

/** Keeps one network from filling the hash queue: what it may have running and waiting at once, in this process. */
export interface HashShare {
  /**
   * @param clientIp empty or absent (a gateway of an earlier version): not counted.
   * @throws {DomainError} `busy` if the network has its share already; what the work throws.
   */
  run<T>(clientIp: string | undefined, work: () => Promise<T>): Promise<T>;
}

/** @param maxOfNetwork less than the queue's places. */
export function createHashShare(maxOfNetwork: number): HashShare {
  const running = new Map<string, number>();
  return {
    async run(clientIp, work) {
      if (clientIp === undefined || clientIp === "") return work();
      const network = networkOf(clientIp);
      const before = running.get(network) ?? 0;
      if (before >= maxOfNetwork) throw new DomainError("busy", undefined, { retryAfterMs: 1_000 });
      running.set(network, before + 1);
      try {
        return await work();
      } finally {
        const left = (running.get(network) ?? 1) - 1;
        if (left === 0) running.delete(network);
        else running.set(network, left);
      }
    },
  };
}
