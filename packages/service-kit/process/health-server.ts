import { Server, ServerCredentials } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import type { Lifecycle } from "./lifecycle.ts";

const POLL_INTERVAL_MS = 1_000;

/** Plaintext, because Kubernetes' gRPC probe cannot use TLS. @param onLook called once a second. */
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
