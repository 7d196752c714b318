import { createInterface } from "node:readline";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { fromRepository } from "./certificates-issue.ts";

export const testTokenService: Command = {
  name: "test-token-service",
  summary: "Run a token-service for tests of your services",
  details:
    "It needs no database and listens on 127.0.0.1 only. It prints the settings of a service under test, then an answer to " +
    "each line of its standard input, with which it ends. Each line is JSON: docs/verify-tokens.md says what a test can order.",
  positionals: [],
  options: {},
  async run(_input, backend, terminal) {
    if (backend.environment.NODE_ENV === "production") {
      const message = "test-token-service is for tests, and NODE_ENV is production";
      throw new CliError(message, { exitCode: EXIT.config, code: "configuration" });
    }
    const { startTestTokenService } = await fromRepository(
      import("#deploy/local/test-token-service/test-token-rpc.ts"),
    );
    const { settings, order, stop } = await startTestTokenService();
    const lines = createInterface({ input: process.stdin });
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => lines.close());
    try {
      terminal.writeError("gatehouse: a token-service for tests: it issues tokens to whoever asks\n");
      await terminal.writeOut(`${JSON.stringify(settings)}\n`);
      for await (const line of lines) await terminal.writeOut(`${JSON.stringify(await order(line))}\n`);
    } finally {
      await stop();
    }
    return undefined;
  },
};
