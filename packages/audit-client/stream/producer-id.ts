import { v4 as uuidv4 } from "uuid";

/** @param log 0 to 255. @returns a random UUID whose last byte is the number of the log that its entries go to. */
export function newProducerId(log: number): string {
  return producerIdIn(log, uuidv4());
}

/** @param id UUID. @returns the same with another last byte. */
export function producerIdIn(log: number, id: string): string {
  return id.slice(0, -2) + log.toString(16).padStart(2, "0");
}

/** @param producerId UUID. @returns 0 to 255. */
export function logOfProducer(producerId: string): number {
  return Number.parseInt(producerId.slice(-2), 16);
}
