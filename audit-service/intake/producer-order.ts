import { invalidField } from "#kit/values/errors.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const MAX_ENTRIES = 200;

interface Sequenced {
  producerId: string;
  entries: readonly { sequence: number }[];
}

export interface ProducerOrder {
  /**
   * Returns the sequence to acknowledge, which covers all earlier ones.
   * @throws {DomainError} `validation_failed`, also for a gap, because entries would be lost.
   */
  accept(message: Sequenced): number;
}

export function createProducerOrder(): ProducerOrder {
  let producer: string | undefined;
  let last = 0;
  return {
    accept({ producerId, entries }) {
      if (!UUID.test(producerId)) throw invalidField("producerId", "invalid_format", "must be a UUID");
      if (producer !== undefined && producerId !== producer) {
        throw invalidField("producerId", "changed", "must be the same in every message of a stream");
      }
      if (entries.length > MAX_ENTRIES)
        throw invalidField("entries", "too_many", `must be at most ${MAX_ENTRIES}`);
      producer = producerId;
      for (const { sequence } of entries) {
        const isNext = last === 0 ? sequence >= 1 : sequence === last + 1;
        if (!isNext) throw invalidField("entries.sequence", "out_of_order", "must count up by 1");
        last = sequence;
      }
      return last;
    },
  };
}
