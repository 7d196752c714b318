import { callUnary } from "#kit/rpc/rpc-client.ts";
import { KeyServiceClient } from "#proto/gatehouse/token/v1/key_service.ts";
import type { Command } from "../../command.ts";
import { table } from "../table.ts";
import { signingKeyView } from "./signing-key-view.ts";

export const keysList: Command = {
  name: "keys list",
  summary: "Show every stored signing key, newest first",
  positionals: [],
  options: {},
  async run(_input, backend) {
    const answer = await backend.call("token-service", KeyServiceClient, (client, context) =>
      callUnary(client, client.listSigningKeys, {}, context),
    );
    const keys = answer.keys.map(signingKeyView);
    const rows = keys.map((key) => [
      key.keyId,
      key.state,
      key.algorithm,
      key.createdAt ?? "",
      key.activatedAt ?? "",
      key.retiredAt ?? "",
    ]);
    return {
      text: table(["KEY ID", "STATE", "ALGORITHM", "CREATED", "ACTIVATED", "RETIRED"], rows),
      json: { keys },
    };
  },
};
