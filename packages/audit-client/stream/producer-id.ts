import { v4 as uuidv4 } from "uuid";

/** A random UUID whose last byte is the number of the log, 0 to 255, that has the producer's entries. */
export function newProducerId(log = 0): string {
  return uuidv4().slice(0, -2) + log.toString(16).padStart(2, "0");
}

export function logOfProducer(producerId: string): number {
  return Number.parseInt(producerId.slice(-2), 16);
}
