/** The reader closed the output, as `| head` does. */
export class OutputClosedError extends Error {
  override readonly name = "OutputClosedError";
}
