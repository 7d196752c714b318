import { pipeline, type Readable, Transform, type TransformCallback } from "node:stream";

/**
 * Passes a body on as it comes, but keeps back its end until `beforeEnd` is done: the chunk that completes an announced
 * length; otherwise only the end itself, so that nothing of an answer of unknown length is late.
 *
 * @param lengthBytes as announced to the client; undefined if it was not.
 * @param beforeEnd   called once, unless the body fails or its reader goes; never rejects.
 */
export function holdEnd(
  body: Readable,
  lengthBytes: number | undefined,
  beforeEnd: () => Promise<void>,
): Readable {
  let passedBytes = 0;
  let ending: Promise<void> | undefined;
  const end = (done: TransformCallback, chunk?: Buffer) => {
    ending ??= beforeEnd();
    void ending.then(() => done(null, chunk));
  };
  const held = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      passedBytes += chunk.length;
      if (lengthBytes !== undefined && passedBytes >= lengthBytes) end(done, chunk);
      else done(null, chunk);
    },
    flush: (done) => end(done),
  });
  pipeline(body, held, () => undefined); // a failure reaches who reads from it
  return held;
}
