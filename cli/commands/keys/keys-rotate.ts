import { callUnary } from "#kit/rpc/rpc-client.ts";
import { KeyServiceClient } from "#proto/gatehouse/token/v1/key_service.ts";
import type { Command } from "../../command.ts";
import { signingKeyView } from "./signing-key-view.ts";

export const keysRotate: Command = {
  name: "keys rotate",
  summary: "Make the next signing key the active one, and prepare another",
  details:
    "Tokens of the previous key stay valid. Refused while the next key is so new that verifiers with a cached key set\n" +
    "may not know it yet.",
  positionals: [],
  options: {
    force: { type: "boolean", description: "rotate although the next key may not be known everywhere yet" },
  },
  checkWith: "gatehouse keys list",
  async run({ flags }, backend) {
    const { active } = await backend.call("token-service", KeyServiceClient, (client, context) =>
      callUnary(client, client.rotateSigningKey, { force: flags.has("force") }, context),
    );
    if (active === undefined) throw new Error("token-service did not say which key is active");
    const key = signingKeyView(active);
    return { text: `${key.keyId} (${key.algorithm}) signs from now on`, json: { active: key } };
  },
};
