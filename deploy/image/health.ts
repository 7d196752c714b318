import { splitAddress } from "#kit/config/config.ts";

// HEALTHCHECK of the image. It succeeds if the process answers or has no operations port.
const { OPERATIONS_ADDRESS } = process.env;
if (OPERATIONS_ADDRESS) {
  const { host, port } = splitAddress(OPERATIONS_ADDRESS);
  const own = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  const origin = `http://${own.includes(":") ? `[${own}]` : own}:${port}`;
  const answer = await fetch(`${origin}/healthz`, { signal: AbortSignal.timeout(2_000) }).catch(
    () => undefined,
  );
  process.exitCode = answer?.ok ? 0 : 1;
}
