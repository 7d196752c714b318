import { type Readable, Transform } from "node:stream";
import { DomainError } from "../../service-kit/errors.ts";

/**
 * A request's body on its way to an upstream: fails with `payload_too_large` beyond `maxBytes`, and when the
 * client leaves. Its own end leaves the source open, so that the client can still be answered.
 */
export function limitedBody(source: Readable, maxBytes: number): Readable {
  let bytes = 0;
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > maxBytes) done(new DomainError("payload_too_large"));
      else done(null, chunk);
    },
  });
  // undici listens only during its call, but the client may fail later: an unhandled `error` event would end the process.
  limited.on("error", () => undefined);
  const fail = (error: Error) => limited.destroy(error);
  source.once("error", fail);
  source.once("aborted", () => fail(new Error("the client has gone")));
  limited.once("close", () => {
    source.unpipe(limited);
    // What nobody wants any more must still be read before the connection can be used again.
    source.resume();
  });
  return source.pipe(limited);
}
