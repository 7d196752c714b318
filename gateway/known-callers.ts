import { createHash } from "node:crypto";

const DAY_MS = 86_400_000;
/** Who was let in stays known as long as this at the least, and twice as long at the most. */
export const GENERATION_MS = 15 * DAY_MS;
/** The other gateways are told of a caller again after so long, should Redis have forgotten. */
const TELL_AGAIN_MS = 3_600_000;
/** About 12 MB when full. */
const MAX_NAMES = 100_000;
/**
 * Devices of a user that become known in a day. A login without a device's token makes a new device, so that without a
 * bound one account could make any number of them.
 */
export const NEW_DEVICES_A_DAY = 5;

/** What is known about somebody who was let in. */
export interface LetIn {
  /** An IPv4 address or an IPv6 /64. */
  network: string;
  device?: LetInDevice | undefined;
}

export interface LetInDevice {
  /** See `deviceKeyOf`. */
  key: string;
  /** Who has just logged in on it. Without: the client names it and has proven nothing, so it stays known if it is. */
  userId?: string | undefined;
}

/** Networks and devices from which somebody was let in within 15 days, as far as this process knows. */
export class KnownCallers {
  readonly #networks: RecentNames;
  readonly #devices: RecentNames;
  readonly #told: RecentNames;
  readonly #newDevices: NewDevices;

  /** @param replicas gateways that each admit their share of new devices. */
  constructor(replicas: number, max = MAX_NAMES) {
    this.#networks = new RecentNames(max);
    this.#devices = new RecentNames(max);
    this.#told = new RecentNames(max);
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

  /** @returns whether it is time to tell the others. */
  add({ network, device }: LetIn, nowMs: number): boolean {
    const isDue = this.#networks.add(network, nowMs);
    if (device === undefined) return isDue;
    const { key, userId } = device;
    if (this.hasDevice(key, nowMs) || (userId !== undefined && this.#newDevices.admit(userId, nowMs)))
      this.#devices.add(key, nowMs);
    return this.#told.add(key, nowMs) || isDue || userId !== undefined;
  }
}

/** A bounded number of names; the one that came longest ago gives way. */
class RecentNames {
  /** When each came for the last time, the oldest first. */
  readonly #seenMs = new Map<string, number>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  has(name: string, nowMs: number): boolean {
    return nowMs - (this.#seenMs.get(name) ?? Number.NEGATIVE_INFINITY) < GENERATION_MS;
  }

  /** @returns whether it had not come within the last hour. */
  add(name: string, nowMs: number): boolean {
    const beforeMs = this.#seenMs.get(name);
    if (beforeMs !== undefined && nowMs - beforeMs < TELL_AGAIN_MS) return false;
    this.#seenMs.delete(name);
    this.#seenMs.set(name, nowMs);
    const [oldest] = this.#seenMs.keys();
    if (this.#seenMs.size > this.#max && oldest !== undefined) this.#seenMs.delete(oldest);
    return true;
  }
}

/** Counts new devices of a user in a day. Of bounded size: a few users share a counter by chance. */
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
 * In Redis what is known is a Bloom filter a generation, two of which are looked at: their size is bounded whatever an
 * attacker does. What one takes for known by mistake is only spared a limit that strangers share, but devices' names can
 * be made up and tried out, networks cannot: so devices have more bits.
 */
export interface Filter {
  /** In Redis and in one generation; a power of two. */
  bits: number;
  /** Of one name. */
  bitsOfName: number;
}

/** 8 MiB. Known by mistake: 0.07 % with three million networks in a generation, 4 % with ten million. */
export const NETWORK_FILTER: Filter = { bits: 2 ** 26, bitsOfName: 4 };
/** 16 MiB. Known by mistake: one in 30 million with three million devices in a generation, one in 200,000 with five. */
export const DEVICE_FILTER: Filter = { bits: 2 ** 27, bitsOfName: 12 };
/** Generations that a filter is looked at, and one on which it has expired before its name is used again. */
export const FILTERS = 3;
/** Counters of new devices in Redis, four bits each: 2 MiB for a day. */
const NEW_DEVICE_COUNTERS = 2 ** 22;

/** The bits of a name in a generation's filter. */
export function filterBits(name: string, { bits, bitsOfName }: Filter): number[] {
  const digest = createHash("sha512").update(name).digest();
  return Array.from({ length: bitsOfName }, (_, index) => digest.readUInt32BE(4 * index) % bits);
}

/** The place of a user's counter in Redis. */
export function newDevicesPlace(userId: string): number {
  return placeOf(userId, NEW_DEVICE_COUNTERS);
}

function placeOf(name: string, places: number): number {
  return createHash("sha256").update(name).digest().readUInt32BE() % places;
}
