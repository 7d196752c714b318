import { Client } from "@grpc/grpc-js";
import { reflectionMethod } from "#kit/rpc/reflection.ts";
import { fromRpcError, isUnknownMethod } from "#kit/rpc/rpc-errors.ts";
import { toMetadata } from "#kit/rpc/rpc-metadata.ts";
import type { Backend } from "./backend.ts";
import type { BackendService } from "./backend-settings.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

type Question = { listServices: string } | { fileContainingSymbol: string };

interface Answer {
  listServicesResponse?: { service: { name: string }[] };
  fileDescriptorResponse?: { fileDescriptorProto: Iterable<number>[] };
}

/** gRPC server reflection. @throws {CliError} also if the service was started without it. */
export function askReflection(
  backend: Backend,
  server: BackendService,
  questions: readonly Question[],
): Promise<Answer[]> {
  return backend.call(server, Client, async (client, context) => {
    const { path, requestSerialize, responseDeserialize } = await reflectionMethod();
    const options = { deadline: context.deadlineMs };
    const stream = client.makeBidiStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
      toMetadata(context),
      options,
    );
    for (const question of questions) stream.write(question);
    stream.end();
    const answers: Answer[] = [];
    try {
      for await (const answer of stream) answers.push(answer as Answer);
    } catch (error) {
      if (isUnknownMethod(error)) throw notDescribed(server);
      throw fromRpcError(error);
    }
    return answers;
  });
}

function notDescribed(server: BackendService): CliError {
  return new CliError(`${server} does not describe itself: GRPC_REFLECTION=true of ${server} lets it`, {
    exitCode: EXIT.failed,
    code: "not_implemented",
  });
}
