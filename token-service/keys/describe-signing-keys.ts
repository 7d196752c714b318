import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { KeyRing } from "./key-ring.ts";

export function describeSigningKeys(
  metrics: Metrics,
  deps: { keys: Pick<KeyRing, "list">; maxAgeS: number; now: () => Date },
): void {
  metrics.gauge(
    "gatehouse_signing_key_age_seconds",
    "Seconds since the active signing key began to sign; NaN without one.",
    [],
    (gauge) => {
      const active = deps.keys.list().find(({ state }) => state === "active");
      const sinceMs = deps.now().getTime() - (active?.activatedAt?.getTime() ?? Number.NaN);
      gauge.set(sinceMs / 1_000);
    },
  );
  metrics
    .gauge("gatehouse_signing_key_max_age_seconds", "Age at which the active signing key is rotated.")
    .set(deps.maxAgeS);
}
