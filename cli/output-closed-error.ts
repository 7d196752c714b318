/** Who read our output has closed it, as `| head` does: no failure of ours, but there is no more to do. */
export class OutputClosedError extends Error {
  override readonly name = "OutputClosedError";
}
