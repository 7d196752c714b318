import { request } from "undici";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import type { OperationsAddress } from "../operations-addresses.ts";
import { table } from "./table.ts";

/** Exceeds a readiness check. */
const TIMEOUT_MS = 4_000;
const MAX_REASON_CHARACTERS = 2_000;

interface ProcessHealth extends OperationsAddress {
  state: "ready" | "unready" | "unreachable";
  reasons: string[];
}

export const health: Command = {
  name: "health",
  summary: "Ask every process whether it is ready, and what it waits for",
  details:
    "Calls /readyz on the operations ports over plain HTTP. Behind a Service of several replicas, one of them answers.\n" +
    "Exit code 69 if any is unready or cannot be reached.",
  positionals: [],
  options: {},
  async run(_input, backend) {
    const processes = await Promise.all(backend.operationsAddresses().map(readHealth));
    const rows = processes.map(({ process, address, state, reasons }) => [
      process,
      address,
      state,
      reasons.join(", "),
    ]);
    return {
      text: table(["PROCESS", "ADDRESS", "STATE", "REASON"], rows),
      json: { isReady: processes.every(({ state }) => state === "ready"), processes },
      exitCode: processes.every(({ state }) => state === "ready") ? EXIT.ok : EXIT.unavailable,
    };
  },
};

async function readHealth(target: OperationsAddress): Promise<ProcessHealth> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const { statusCode, body } = await request(`http://${target.address}/readyz`, { signal });
    const text = (await body.text()).slice(0, MAX_REASON_CHARACTERS).trim();
    if (statusCode === 200) return { ...target, state: "ready", reasons: [] };
    if (statusCode === 503) return { ...target, state: "unready", reasons: text.split("\n") };
    return { ...target, state: "unreachable", reasons: [`HTTP ${statusCode}: not an operations port`] };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = signal.aborted ? `no answer within ${TIMEOUT_MS} ms` : (code ?? message);
    return { ...target, state: "unreachable", reasons: [reason] };
  }
}
