/**
 * What a stream brings until it ends or the signal aborts. A `for await` over a call would destroy it when left
 * early, and with it the status that has still to be sent; this leaves it alone.
 */
export async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void> {
  const iterator = source[Symbol.asyncIterator]();
  while (!signal.aborted) {
    const next = await nextOrAborted(iterator, signal);
    if (next.done) return;
    yield next.value;
  }
}

/** A promise of its own each time: racing one that lives as long as the stream would pile up its reactions. */
function nextOrAborted<T>(
  iterator: AsyncIterator<T>,
  signal: AbortSignal,
): Promise<IteratorResult<T, undefined>> {
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve({ done: true, value: undefined });
    signal.addEventListener("abort", onAbort, { once: true });
    iterator
      .next()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", onAbort));
  });
}
