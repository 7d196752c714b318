import type { Payment } from "./payment.ts";

const MAX_PAYEES_PER_USER = 100;

/** In memory, for this example only. */
export interface PaymentStore {
  /** Returns the payment that the user has ordered under one of these names before, if there is one. */
  add(payment: Payment, names?: readonly string[]): Payment;
  find(id: string): Payment | undefined;
  /** Newest first. All users' without `userId`. */
  list(userId?: string): Payment[];
  /** Returns false if it did not exist. */
  remove(id: string): boolean;
  /** Returns false if the user has too many. */
  addPayee(userId: string, name: string): boolean;
  /** Ordered as they were added. */
  payees(userId: string): ReadonlySet<string>;
}

/** The oldest payments, and payees of the users who added none for the longest time, are dropped above `maxPayments`. */
export function createPaymentStore(maxPayments: number): PaymentStore {
  const payments = new Map<string, Payment>();
  /** Keyed by user and name. */
  const ordered = new Map<string, Payment>();
  const payeesOf = new Map<string, Set<string>>();
  return {
    add(payment, names = []) {
      const orders = names.map((name) => JSON.stringify([payment.userId, name]));
      const earlier = orders.map((order) => ordered.get(order)).find((found) => found !== undefined);
      if (earlier !== undefined) return earlier;
      payments.set(payment.id, payment);
      dropOldest(payments, maxPayments);
      for (const order of orders) {
        ordered.set(order, payment);
        dropOldest(ordered, maxPayments);
      }
      return payment;
    },
    find: (id) => payments.get(id),
    list(userId) {
      const all = [...payments.values()].reverse();
      return userId === undefined ? all : all.filter((payment) => payment.userId === userId);
    },
    remove: (id) => payments.delete(id),
    addPayee(userId, name) {
      const names = payeesOf.get(userId) ?? new Set<string>();
      if (names.size >= MAX_PAYEES_PER_USER && !names.has(name)) return false;
      payeesOf.delete(userId);
      payeesOf.set(userId, names.add(name));
      dropOldest(payeesOf, maxPayments);
      return true;
    },
    payees: (userId) => payeesOf.get(userId) ?? new Set(),
  };
}

function dropOldest(map: Map<string, unknown>, maxSize: number): void {
  const [oldest] = map.keys();
  if (map.size > maxSize && oldest !== undefined) map.delete(oldest);
}
