export interface ProducerPresence {
  /** Called for each stream. Returns the function that ends its presence. */
  enter(producerId: string): () => void;
  present(): string[];
}

export function createProducerPresence(): ProducerPresence {
  const streams = new Map<string, number>();
  return {
    enter(given) {
      const producerId = given.toLowerCase();
      streams.set(producerId, (streams.get(producerId) ?? 0) + 1);
      return () => {
        const left = (streams.get(producerId) ?? 1) - 1;
        if (left > 0) streams.set(producerId, left);
        else streams.delete(producerId);
      };
    },
    present: () => [...streams.keys()],
  };
}
