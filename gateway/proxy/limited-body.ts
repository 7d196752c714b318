import { type Readable, Transform } from "node:stream";
import { DomainError } from "#kit/values/errors.ts";
import { ClientGone } from "../edge/request/completion.ts";

/** Fails with `payload_too_large`. Leaves the source open, so that the client can be answered. */
export function limitedBody(source: Readable, maxBytes: number): Readable {
  let bytes = 0;
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > maxBytes) done(new DomainError("payload_too_large"));
      else done(null, chunk);
    },
  });
  // undici removes its listener after the call. A later unhandled `error` would end the process.
  limited.on("error", () => undefined);
  const fail = (error: Error) => limited.destroy(error);
  source.once("error", fail);
  source.once("aborted", () => fail(new ClientGone()));
  limited.once("close", () => {
    source.unpipe(limited);
    // Must be read before the connection can be reused.
    source.resume();
  });
  return source.pipe(limited);
}
