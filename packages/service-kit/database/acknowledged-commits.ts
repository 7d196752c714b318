export interface AcknowledgedCommit {
  /** Of a row that the transaction has inserted. */
  id: string;
  at: Date;
}

/** While they are not checked. */
const MAX_UNCHECKED = 10_000;
/** Of those that were there: more than the connections whose commits can be acknowledged in another order. */
const KEPT = 100;

/**
 * Marks of commits that PostgreSQL has acknowledged to this process. A database that went back, by a fail-over or a
 * restore, lacks the newest from before it. Those are kept, so that a loss is noticed whenever it happens.
 */
export class AcknowledgedCommits {
  /** In the order of their acknowledgement. */
  #commits: AcknowledgedCommit[] = [];

  add(commit: AcknowledgedCommit): void {
    this.#commits.push(commit);
    if (this.#commits.length > MAX_UNCHECKED) this.#commits.shift();
  }

  /**
   * Each lost commit is returned once.
   * @param since earlier ones are forgotten, because their rows may have been deleted.
   * @param select those of the ids that the database has.
   */
  async takeLost(since: Date, select: (ids: string[]) => Promise<string[]>): Promise<AcknowledgedCommit[]> {
    const asked = this.#commits.filter(({ at }) => at >= since);
    const found = new Set(asked.length === 0 ? [] : await select(asked.map(({ id }) => id)));
    const known = asked.filter(({ id }) => found.has(id)).slice(-KEPT);
    const lost = asked.filter(({ id }) => !found.has(id));
    const last = asked.at(-1);
    const added = last === undefined ? [] : this.#commits.slice(this.#commits.lastIndexOf(last) + 1);
    this.#commits = [...known, ...added];
    return lost;
  }
}
