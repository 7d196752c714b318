import type { Payment } from "./payment.ts";

/** In memory, for this example only. */
export interface PaymentStore {
  add(payment: Payment): void;
  find(id: string): Payment | undefined;
  /** Newest first. All users' without `userId`. */
  list(userId?: string): Payment[];
  /** Returns false if it did not exist. */
  remove(id: string): boolean;
}

/** The oldest are dropped above `maxPayments`. */
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
