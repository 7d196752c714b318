/** The reader closed the output, as `| head` does. The command ends without a failure. */
export class OutputClosedError extends Error {
  override readonly name = "OutputClosedError";
}
