/** Results and the first failure come in the order of the source. @param limit Concurrent items. */
export async function* mapInOrder<T, R>(
  source: AsyncIterable<T>,
  limit: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R, void> {
  const iterator = source[Symbol.asyncIterator]();
  const underWay: Promise<R>[] = [];
  let reading: Promise<IteratorResult<T>> | undefined;
  let isOver = false;
  while (!isOver || underWay.length > 0) {
    if (!isOver && underWay.length < limit) reading ??= handled(iterator.next());
    const oldest = underWay[0];
    if (oldest !== undefined && (await isFirst(oldest, reading))) {
      underWay.shift();
      yield await oldest;
    } else if (reading !== undefined) {
      const next = await reading;
      reading = undefined;
      if (next.done) isOver = true;
      else underWay.push(handled(work(next.value)));
    }
  }
}

/** Prevents an unhandled rejection before its turn. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

async function isFirst(promise: Promise<unknown>, other: Promise<unknown> | undefined): Promise<boolean> {
  if (other === undefined) return true;
  return Promise.race([promise.then(() => true), other.then(() => false)]);
}
