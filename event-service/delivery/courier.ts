import type { Logger } from "#kit/telemetry/logger.ts";
import type { CourierEndpoint, CourierState } from "../endpoints/endpoint-store.ts";
import { type StreamEvent, typeFilter } from "../stream/event.ts";
import type { EventSource } from "../stream/event-source.ts";
import { type AttemptResult, MAX_AT_ONCE } from "./attempt.ts";
import { type DeliveryWithBody, newDelivery, type Waiting } from "./delivery-store.ts";
import { FAILURES_OF_ENDPOINT, isGivenUp, nextAttemptAt, restMs } from "./schedule.ts";

/** One endpoint has no more waiting deliveries than this and a batch; further events wait in the log. */
const MAX_WAITING = 1_000;
const BATCH = 100;
/** An endpoint that is sent nothing remembers its place so often. */
const REMEMBER_MS = 5_000;
const MAX_PAUSE_MS = 1_000;
const ERROR_PAUSE_MS = 1_000;

export interface CourierDeps {
  events: Pick<EventSource, "after" | "grown">;
  send(event: Pick<StreamEvent, "id" | "body">): Promise<AttemptResult>;
  selectDue(limit: number): Promise<DeliveryWithBody[]>;
  /** Also before it is due. */
  selectFirstWaiting(): Promise<DeliveryWithBody[]>;
  summarizeWaiting(): Promise<Waiting>;
  /** False if the endpoint has another holder, or was changed: nothing was stored. */
  save(batch: CourierBatch): Promise<boolean>;
  /** Whether the lease lasts. */
  isHeld(): boolean;
  onAttempt(result: AttemptResult, delivery: DeliveryWithBody): void;
  now: () => Date;
  random: () => number;
  logger: Logger;
}

export interface CourierBatch {
  deliveries: readonly DeliveryWithBody[];
  state: CourierState;
  /** After failures. */
  isBack: boolean;
}

/**
 * Delivers the events of one endpoint, in the order of the log for each subject. A batch that is not stored is delivered again: at
 * least once, and twice only if the process or its database ends between the two.
 */
export class Courier {
  readonly #deps: CourierDeps;
  #endpoint: CourierEndpoint;
  readonly #matches: (type: string) => boolean;
  #waiting: Waiting | undefined;
  #isStale = false;
  #rememberedMs = 0;
  #isStopped = false;
  readonly #wake = Promise.withResolvers<void>();
  /** From before this step's read of events, so that what came since ends the pause. Undefined: it has read none. */
  #grown: Promise<void> | undefined;

  constructor(endpoint: CourierEndpoint, deps: CourierDeps) {
    this.#deps = deps;
    this.#endpoint = endpoint;
    this.#matches = typeFilter(endpoint.types);
  }

  /** Until it is stopped, or the endpoint is not its own any more. */
  async run(): Promise<void> {
    while (!this.#isStopped) {
      try {
        const pauseMs = await this.#step();
        if (pauseMs > 0) await this.#pause(pauseMs);
      } catch (error) {
        this.#deps.logger.warn(
          { err: error, endpoint: this.#endpoint.id },
          "what a batch has not delivered is sent again",
        );
        this.#waiting = undefined;
        this.#grown = undefined;
        await this.#pause(ERROR_PAUSE_MS);
      }
    }
  }

  /** Somebody else may have added to what waits. */
  lookAgain(): void {
    this.#isStale = true;
  }

  stop(): void {
    this.#isStopped = true;
    this.#wake.resolve();
  }

  /** @returns how long to wait if nothing new comes. */
  async #step(): Promise<number> {
    const { now, isHeld } = this.#deps;
    this.#grown = undefined;
    if (!isHeld()) return MAX_PAUSE_MS;
    if (this.#restsMs > 0) return Math.min(this.#restsMs, MAX_PAUSE_MS);
    if (this.#isStale) this.#waiting = undefined;
    this.#isStale = false;
    this.#waiting ??= await this.#deps.summarizeWaiting();
    // One by one, until one is taken.
    const limit = this.#endpoint.failures >= FAILURES_OF_ENDPOINT ? 1 : BATCH;
    const retried = await this.#retry(limit);
    // By what it has just answered.
    if (this.#isStopped || this.#restsMs > 0) return 0;
    const { isAtEnd } = await this.#deliverNew(limit);
    if (retried || !isAtEnd) return 0;
    await this.#tryBeforeDue();
    const dueMs = (this.#waiting?.firstDueAt?.getTime() ?? Number.POSITIVE_INFINITY) - now().getTime();
    return Math.min(Math.max(dueMs, 0), MAX_PAUSE_MS);
  }

  get #restsMs(): number {
    return (this.#endpoint.restsUntil?.getTime() ?? 0) - this.#deps.now().getTime();
  }

  /** @returns whether there may be more. */
  async #retry(limit: number): Promise<boolean> {
    if (this.#waiting === undefined || this.#waiting.count === 0) return false;
    const due = await this.#deps.selectDue(limit);
    if (due.length === 0) return false;
    await this.#deliver(due, [], this.#endpoint.places);
    return due.length === limit && limit > 1;
  }

  /** Whether an endpoint is back whose rest has ended without anything that is due or new. */
  async #tryBeforeDue(): Promise<void> {
    const isResting = this.#endpoint.failures >= FAILURES_OF_ENDPOINT && this.#restsMs <= 0;
    if (!isResting || this.#isStopped || this.#waiting?.count === 0) return;
    await this.#deliver(await this.#deps.selectFirstWaiting(), [], this.#endpoint.places);
  }

  async #deliverNew(limit: number): Promise<{ isAtEnd: boolean }> {
    const waiting = this.#waiting;
    const isFull = waiting === undefined || waiting.count >= MAX_WAITING;
    if (isFull || this.#endpoint.status === "paused") return { isAtEnd: true };
    this.#grown = this.#deps.events.grown;
    const { events, next, isAtEnd } = await this.#deps.events.after(this.#endpoint.places);
    const wanted = events.filter(({ type }) => this.#matches(type));
    if (wanted.length === 0) {
      await this.#moveOn(next);
      return { isAtEnd };
    }
    const rows = wanted.map((event) => newDelivery(event, this.#deps.now()));
    const isBehind = ({ subject }: DeliveryWithBody) => subject !== "" && waiting.subjects.has(subject);
    const direct = rows.filter((row) => !isBehind(row));
    // In a rest, one shows whether the endpoint is back; the others are tried after it.
    const [tried, later] = limit === 1 ? [direct.slice(0, 1), direct.slice(1)] : [direct, []];
    await this.#deliver(tried, [...later, ...rows.filter(isBehind)], next);
    return { isAtEnd };
  }

  async #moveOn(places: CourierEndpoint["places"]): Promise<void> {
    this.#endpoint = { ...this.#endpoint, places };
    if (performance.now() - this.#rememberedMs < REMEMBER_MS) return;
    await this.#save({ deliveries: [], state: { ...this.#state, places }, isBack: false });
  }

  /** @param behind are stored, to be tried later. */
  async #deliver(
    tried: DeliveryWithBody[],
    behind: DeliveryWithBody[],
    places: CourierEndpoint["places"],
  ): Promise<void> {
    const { failures } = this.#endpoint;
    // A receiver may take seconds for each of a batch, and have lost its right meanwhile.
    const isHeld = () => !this.#isStopped && this.#deps.isHeld();
    const attempts = new Attempts({ ...this.#deps, isHeld }, failures);
    const deliveries = [...(await attempts.make(tried)), ...behind];
    const state = attempts.hasTried ? this.#stateAfter(attempts, places) : { ...this.#state, places };
    const isBack = failures >= FAILURES_OF_ENDPOINT && attempts.hasSuccess;
    await this.#save({ deliveries, state, isBack });
    if (attempts.error !== undefined) throw attempts.error;
    if (
      this.#waiting !== undefined &&
      this.#waiting.count === 0 &&
      deliveries.every(({ state }) => state !== "waiting")
    )
      return;
    this.#waiting = await this.#deps.summarizeWaiting();
  }

  get #state(): CourierState {
    const { places, failures, failingSince, restsUntil, pausedReason } = this.#endpoint;
    return { places, failures, failingSince, restsUntil, pausedReason };
  }

  #stateAfter(attempts: Attempts, places: CourierState["places"]): CourierState {
    const { failures, failingSince, isTemporary, pausedReason } = this.#endpoint;
    const at = this.#deps.now();
    const counted = failuresAfter(failures, attempts);
    const since = counted === 0 ? null : attempts.hasSuccess ? at : (failingSince ?? at);
    const isOver = since !== null && isGivenUp(since, isTemporary, at);
    const rests = Math.max(restMs(counted), attempts.askedMs);
    return {
      places,
      failures: counted,
      failingSince: since,
      restsUntil: rests > 0 ? new Date(at.getTime() + rests) : null,
      pausedReason: attempts.isGone ? "gone" : isOver ? "failing" : pausedReason,
    };
  }

  async #save(batch: CourierBatch): Promise<void> {
    this.#rememberedMs = performance.now();
    const isStored = await this.#deps.save(batch);
    if (!isStored || batch.state.pausedReason !== this.#endpoint.pausedReason) this.stop();
    this.#endpoint = { ...this.#endpoint, ...batch.state };
  }

  async #pause(pauseMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const elapsed = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, pauseMs);
    });
    const isResting = this.#endpoint.restsUntil !== null;
    await Promise.race([elapsed, this.#wake.promise, (isResting ? undefined : this.#grown) ?? elapsed]);
    clearTimeout(timer);
  }
}

type AttemptDeps = Pick<CourierDeps, "send" | "isHeld" | "onAttempt" | "now" | "random">;

/** The attempts of one batch. */
class Attempts {
  readonly #deps: AttemptDeps;
  readonly #isResting: boolean;
  failures: number;
  hasSuccess = false;
  isGone = false;
  /** How long the receiver asks to be left alone. */
  askedMs = 0;
  hasTried = false;
  /** Why something could not be sent, which is no failure of the receiver. It ends the batch. */
  error: unknown;

  constructor(deps: AttemptDeps, failures: number) {
    this.#deps = deps;
    this.#isResting = failures >= FAILURES_OF_ENDPOINT;
    this.failures = failures;
  }

  /** Those of one subject one after the other, until one fails. @returns all, as they are now. */
  async make(deliveries: readonly DeliveryWithBody[]): Promise<DeliveryWithBody[]> {
    const groups = [...Map.groupBy(deliveries, ({ subject, eventId }) => subject || eventId).values()];
    const done: DeliveryWithBody[] = [];
    const work = async () => {
      for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
        let isBlocked = false;
        for (const delivery of group) {
          const result: DeliveryWithBody =
            isBlocked || this.#isOver() ? delivery : await this.#attempt(delivery);
          isBlocked ||= result.state === "waiting";
          done.push(result);
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_AT_ONCE, groups.length) }, work));
    return done;
  }

  /** The first failures of an endpoint that is away are enough. */
  #isOver(): boolean {
    return (
      this.error !== undefined ||
      this.isGone ||
      this.askedMs > 0 ||
      !this.#deps.isHeld() ||
      (!this.hasSuccess && this.failures >= FAILURES_OF_ENDPOINT && this.hasTried)
    );
  }

  async #attempt(delivery: DeliveryWithBody): Promise<DeliveryWithBody> {
    const { send, onAttempt, now, random } = this.#deps;
    let result: AttemptResult;
    try {
      result = await send({ id: delivery.eventId, body: delivery.body ?? "" });
    } catch (error) {
      this.error = error;
      return delivery;
    }
    this.hasTried = true;
    onAttempt(result, delivery);
    const { httpStatus, problem, durationMs } = result;
    const attempts = delivery.attempts + 1;
    const attempted = { ...delivery, attempts, httpStatus, problem, durationMs, attemptedAt: now() };
    if (result.isDelivered) {
      this.hasSuccess = true;
      this.failures = 0;
      return { ...attempted, state: "delivered", body: null, nextAttemptAt: null };
    }
    this.failures += 1;
    this.isGone ||= result.isGone;
    this.askedMs = Math.max(this.askedMs, result.pauseMs);
    // What shows only that the endpoint is still away costs the event none of its attempts.
    if (this.#isResting && delivery.nextAttemptAt !== null && delivery.nextAttemptAt > now())
      return { ...attempted, attempts: delivery.attempts };
    const next = nextAttemptAt(attempts, now(), random());
    if (next === undefined) return { ...attempted, state: "given_up", body: null, nextAttemptAt: null };
    return { ...attempted, nextAttemptAt: next };
  }
}

/** Many fail at the same moment. Once an endpoint rests, each round without success counts one. */
function failuresAfter(
  before: number,
  { failures, hasSuccess }: Pick<Attempts, "failures" | "hasSuccess">,
): number {
  if (failures === 0) return 0;
  const isResting = before >= FAILURES_OF_ENDPOINT && !hasSuccess;
  return isResting ? before + 1 : Math.min(failures, FAILURES_OF_ENDPOINT);
}
