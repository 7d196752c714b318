import type { Payment } from "./payment.ts";

/** The latest payments, in memory: enough for an example, gone with the process. A real service has a database. */
export interface PaymentStore {
  add(payment: Payment): void;
  find(id: string): Payment | undefined;
  /** Newest first. @param userId whose; everyone's if absent. */
  list(userId?: string): Payment[];
  /** @returns whether it was there. */
  remove(id: string): boolean;
}

/** @param maxPayments beyond that, the oldest is forgotten. */
export function createPaymentStore(maxPayments: number): PaymentStore {
  const payments = new Map<string, Payment>();
  return {
    add(payment) {
      payments.set(payment.id, payment);
      const [oldest] = payments.keys();
      if (payments.size > maxPayments && oldest !== undefined) payments.delete(oldest);
    },
    find: (id) => payments.get(id),
    list(userId) {
      const all = [...payments.values()].reverse();
      return userId === undefined ? all : all.filter((payment) => payment.userId === userId);
    },
    remove: (id) => payments.delete(id),
  };
}
