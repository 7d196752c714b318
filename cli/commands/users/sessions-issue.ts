import { callUnary } from "#kit/rpc/rpc-client.ts";
import { isUnknownMethod } from "#kit/rpc/rpc-errors.ts";
import { TestLoginServiceClient } from "#proto/gatehouse/identity/v1/test_login_service.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { wholeNumber } from "../whole-number.ts";

export const sessionsIssue: Command = {
  name: "sessions issue",
  summary: "Log in as a user without a proof, in tests of a whole system beside `npm start`",
  details:
    "Prints the access token, with --json also the refresh token. identity-service serves it with TEST_LOGINS=true only, as " +
    "`npm start` sets it. The audit log has user.test_login_asked, with who asked.",
  positionals: ["id-or-address"],
  options: {
    level: {
      type: "string",
      value: "1-3",
      description: "of assurance; default: 2 with a second factor, else 1",
    },
  },
  checkWith: "gatehouse sessions list <user>",
  async run({ positionals: [user = ""], values }, backend) {
    const level = wholeNumber(values, "level", { min: 1, max: 3 }) ?? 0;
    const tokens = await backend
      .call("identity-service", TestLoginServiceClient, (client, context) =>
        callUnary(client, client.logInAs, { user, level }, context),
      )
      .catch(explainUnknown);
    return { text: tokens.accessToken, json: tokens };
  },
};

function explainUnknown(error: unknown): never {
  const { cause } = (error as { cause?: { cause?: unknown } }).cause ?? {};
  if (!(error instanceof CliError) || !isUnknownMethod(cause ?? {})) throw error;
  const message = "identity-service lets nobody log in as others: it was started without TEST_LOGINS=true";
  throw new CliError(message, { exitCode: EXIT.failed, code: "not_implemented", cause: error });
}
