/** The client left before the response. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";

  constructor(options?: { cause?: unknown }) {
    super("the client has gone", options);
  }
}
