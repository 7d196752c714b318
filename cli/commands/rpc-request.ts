import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { type DescMethod, fromJsonString, type MessageShape } from "@bufbuild/protobuf";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { UsageError } from "../usage-error.ts";

export type RpcRequest = MessageShape<DescMethod["input"]>;

/** The JSON of a request: as it was typed, of a file, or with `-` of standard input. @throws {CliError} 64, 66. */
export async function readRequest(json: string | undefined, file: string | undefined): Promise<string> {
  if (json !== undefined && file !== undefined) throw new UsageError("Specify the JSON or --file, not both");
  if (json === "-") return readInput("-");
  return file === undefined ? (json ?? "{}") : readInput(file);
}

/** A whole file, or with `-` standard input. @throws {CliError} 66. */
export async function readInput(file: string): Promise<string> {
  if (file === "-") return text(process.stdin);
  return readFile(file, "utf8").catch((cause: NodeJS.ErrnoException) => {
    const message = `${file} cannot be read (${cause.code ?? "unreadable"})`;
    throw new CliError(message, { exitCode: EXIT.input, code: "file_unreadable", cause });
  });
}

/** @throws {UsageError} without any value of the JSON, which may be a secret. */
export function parseRequest(method: DescMethod, json: string): RpcRequest {
  try {
    return fromJsonString(method.input, json);
  } catch (error) {
    const reason = error instanceof Error ? withoutValues(error.message) : undefined;
    const problem = reason ?? `the JSON does not fit ${method.input.typeName}`;
    throw new UsageError(problem, `gatehouse rpc --list ${method.parent.typeName}/${method.name}`);
  }
}

/** What the library says of names, and nothing behind that. */
function withoutValues(message: string): string | undefined {
  const [where] = /^cannot decode (?:\w+ )?[\w.]+ from JSON/.exec(message) ?? [];
  const [key] =
    /key "[A-Za-z_]\w{0,63}" is unknown|duplicate object key "[A-Za-z_]\w{0,63}"/.exec(message) ?? [];
  return where && (key === undefined ? where : `${where}: ${key}`);
}
