/** Leaving a `for await` over a call would destroy it before its status is sent. */
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

/** Racing one long-lived promise would accumulate reactions. */
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
