import { createHash } from "node:crypto";

const DAY_MS = 86_400_000;
/** A caller is known for this time after a success, and at most twice as long. */
export const GENERATION_MS = 15 * DAY_MS;
/** Redis may have lost its data. */
const SEND_AGAIN_MS = 3_600_000;
/** About 12 MB when full. */
const MAX_NAMES = 100_000;
/** Counts for each user. A login without a device token creates a device, so one account could create any number. */
export const NEW_DEVICES_A_DAY = 5;

export interface LetIn {
  /** An IPv4 address or an IPv6 /64. */
  network: string;
  device?: LetInDevice | undefined;
}

export interface LetInDevice {
  /** See `deviceKeyOf`. */
  key: string;
  /** The user who has just logged in on it. Without a user, an unknown device stays unknown. */
  userId?: string | undefined;
}

/** Networks and devices with a recent success, in memory. */
export class KnownCallers {
  readonly #networks: RecentNames;
  readonly #devices: RecentNames;
  readonly #sent: RecentNames;
  readonly #newDevices: NewDevices;

  /** Each of `replicas` gateways accepts its share of new devices. */
  constructor(replicas: number, max = MAX_NAMES) {
    this.#networks = new RecentNames(max);
    this.#devices = new RecentNames(max);
    this.#sent = new RecentNames(max);
    this.#newDevices = new NewDevices(Math.max(1, Math.floor(NEW_DEVICES_A_DAY / replicas)));
  }

  /** @param nowMs of a monotonic clock. */
  hasNetwork(network: string, nowMs: number): boolean {
    return this.#networks.has(network, nowMs);
  }

  /** @param nowMs of a monotonic clock. */
  hasDevice(key: string, nowMs: number): boolean {
    return this.#devices.has(key, nowMs);
  }

  /** @returns whether to send it to Redis. */
  add({ network, device }: LetIn, nowMs: number): boolean {
    const isDue = this.#networks.add(network, nowMs);
    if (device === undefined) return isDue;
    const { key, userId } = device;
    if (this.hasDevice(key, nowMs) || (userId !== undefined && this.#newDevices.admit(userId, nowMs)))
      this.#devices.add(key, nowMs);
    return this.#sent.add(key, nowMs) || isDue || userId !== undefined;
  }
}

/** When full, the least recently added name is evicted. */
class RecentNames {
  /** Time of the last addition, oldest first. */
  readonly #seenMs = new Map<string, number>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  has(name: string, nowMs: number): boolean {
    return nowMs - (this.#seenMs.get(name) ?? Number.NEGATIVE_INFINITY) < GENERATION_MS;
  }

  /** @returns false if it was added within the last hour. */
  add(name: string, nowMs: number): boolean {
    const beforeMs = this.#seenMs.get(name);
    if (beforeMs !== undefined && nowMs - beforeMs < SEND_AGAIN_MS) return false;
    this.#seenMs.delete(name);
    this.#seenMs.set(name, nowMs);
    const [oldest] = this.#seenMs.keys();
    if (this.#seenMs.size > this.#max && oldest !== undefined) this.#seenMs.delete(oldest);
    return true;
  }
}

/** Bounded: some users share a counter. */
class NewDevices {
  readonly #counts = new Uint8Array(2 ** 16);
  readonly #max: number;
  #day = 0;

  constructor(max: number) {
    this.#max = max;
  }

  admit(userId: string, nowMs: number): boolean {
    const day = Math.floor(nowMs / DAY_MS);
    if (day !== this.#day) this.#counts.fill(0);
    this.#day = day;
    const place = placeOf(userId, this.#counts.length);
    const count = this.#counts[place] ?? 0;
    if (count >= this.#max) return false;
    this.#counts[place] = count + 1;
    return true;
  }
}

/**
 * A Bloom filter in Redis for each generation of 15 days. The last two are searched. A false positive only
 * escapes the limit that strangers share. Attackers can invent device keys, but not networks: so the devices'
 * filter has a lower rate.
 */
export interface Filter {
  /** A power of two. */
  bits: number;
  /** Hash functions. */
  bitsOfName: number;
}

/** 8 MiB. False positives: 0.07 % with three million networks in a generation, 4 % with ten million. */
export const NETWORK_FILTER: Filter = { bits: 2 ** 26, bitsOfName: 4 };
/** 16 MiB. False positives: one in 30 million with three million devices, one in 200,000 with five. */
export const DEVICE_FILTER: Filter = { bits: 2 ** 27, bitsOfName: 12 };
/** Two generations in use, and one that expires before its key is used again. */
export const FILTERS = 3;
/** Four bits each: 2 MiB for a day. */
const NEW_DEVICE_COUNTERS = 2 ** 22;

export function filterBits(name: string, { bits, bitsOfName }: Filter): number[] {
  const digest = createHash("sha512").update(name).digest();
  return Array.from({ length: bitsOfName }, (_, index) => digest.readUInt32BE(4 * index) % bits);
}

export function newDevicesPlace(userId: string): number {
  return placeOf(userId, NEW_DEVICE_COUNTERS);
}

function placeOf(name: string, places: number): number {
  return createHash("sha256").update(name).digest().readUInt32BE() % places;
}
