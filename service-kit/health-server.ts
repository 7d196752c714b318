import { Server, ServerCredentials } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import type { Lifecycle } from "./lifecycle.ts";

const POLL_INTERVAL_MS = 1_000;

/**
 * `grpc.health.v1` in plaintext on a port of its own, because Kubernetes' gRPC probe speaks no TLS. Serves
 * nothing else. The overall status ("") follows readiness.
 *
 * @param onLook called once a second with the reasons why the process is unready.
 */
export async function startHealthServer(
  address: string,
  lifecycle: Pick<Lifecycle, "unreadyReasons">,
  onLook: (reasons: string[]) => void = () => undefined,
): Promise<{ stop(): void }> {
  const health = new HealthImplementation({ "": "NOT_SERVING" });
  const server = new Server();
  health.addToServer(server);
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  let isChecking = false;
  const update = async () => {
    if (isChecking) return;
    isChecking = true;
    const reasons = await lifecycle.unreadyReasons();
    health.setStatus("", reasons.length === 0 ? "SERVING" : "NOT_SERVING");
    onLook(reasons);
    isChecking = false;
  };
  const timer = setInterval(() => void update(), POLL_INTERVAL_MS);
  return {
    stop() {
      clearInterval(timer);
      server.forceShutdown();
    },
  };
}
