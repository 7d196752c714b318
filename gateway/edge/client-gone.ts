/** The client left before there was an answer. Nobody is told; the log and the audit log are. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";

  constructor(options?: { cause?: unknown }) {
    super("the client has gone", options);
  }
}
