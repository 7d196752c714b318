import { optionOf, SERVICES } from "./backend-settings.ts";
import type { CommandOption } from "./command.ts";
import { OPERATIONS } from "./operations-addresses.ts";

const file = (description: string): CommandOption => ({ type: "string", value: "file", description });

export const GLOBAL_OPTIONS: Readonly<Record<string, CommandOption>> = {
  json: {
    type: "boolean",
    description: "print JSON: the result on standard output, an error on standard error",
  },
  help: { type: "boolean", description: "show this text" },
  home: {
    type: "string",
    value: "folder",
    description: "use certificates and addresses of the local Gatehouse (npm start) in this folder",
  },
  ...Object.fromEntries(
    Object.entries(SERVICES).map(([service, { address }]) => [
      optionOf(address),
      { type: "string", value: "host:port", description: `address of ${service} (${address})` } as const,
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(OPERATIONS).map(([process, { address }]) => [
      optionOf(address),
      {
        type: "string",
        value: "host:port",
        description: `operations port of ${process} (${address})`,
      } as const,
    ]),
  ),
  "tls-cert-file": file("the operator's certificate, PEM (TLS_CERT_FILE)"),
  "tls-key-file": file("its private key, PEM (TLS_KEY_FILE)"),
  "tls-ca-file": file("the private CA's certificate, PEM (TLS_CA_FILE)"),
};
