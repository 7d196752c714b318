import type { Sql } from "#kit/database/postgres.ts";
import type { StoredEntry } from "../entries/entry-store.ts";
import type { CheckpointSigner, TreeHead } from "./checkpoint.ts";
import { type StoredCheckpoint, selectFloor } from "./checkpoint-store.ts";
import { chainHash, FIRST_CHAIN_HASH, leafData } from "./leaf.ts";
import { type GrowingTree, growTree, hashLeaf, type TreeNode } from "./merkle-tree.ts";
import { monthOf, startOfMonth } from "./retention-store.ts";
import {
  type Floor,
  hasTransactionFromBefore,
  insertBatch,
  type Leaf,
  type SequencedBatch,
  selectLastPosition,
  selectUnnumbered,
} from "./sequencer-store.ts";
import { compactRange } from "./tree-proofs.ts";
import { KEPT_LEVELS, selectLeaf } from "./tree-store.ts";

const CHECKPOINT_INTERVAL_MS = 750;

interface Deps {
  sql: Sql;
  signer: CheckpointSigner;
  publish: (note: string, head: TreeHead) => Promise<void>;
  now: () => Date;
  maxBatchEntries: number;
}

/** What this replica knows of the log. */
export interface Progress {
  size: number;
  checkpointSize: number;
  numberedAt: Date | undefined;
  checkpointAt: Date | undefined;
  /** At most one batch. */
  backlogEntries: number;
}

type SignedCheckpoint = NonNullable<SequencedBatch["checkpoint"]>;

interface NextEntries {
  entries: StoredEntry[];
  isAll: boolean;
  /** First unnumbered position of any month. */
  lowest: bigint;
}

/** The time in which this replica holds the lock, and so knows the end of the log. An error ends it. */
export class Term {
  readonly progress: Progress;
  readonly #deps: Deps;
  readonly #end: LogEnd;
  /** No more entries can appear up to here. */
  #floor: Floor;
  /** Becomes the floor when its `writers` are gone. */
  #ahead: Floor;
  #writers: ReadonlySet<string> | undefined;
  /** Of the last numbered entry, or 0. */
  #month: number;

  private constructor(deps: Deps, start: { progress: Progress; end: LogEnd; floor: Floor; month: number }) {
    this.#deps = deps;
    this.progress = start.progress;
    this.#end = start.end;
    this.#floor = start.floor;
    this.#ahead = start.floor;
    this.#month = start.month;
  }

  /** The last checkpoint must fit the log. */
  static async begin(deps: Deps, before: Progress, last: StoredCheckpoint | undefined): Promise<Term> {
    const { sql } = deps;
    const { size } = before;
    const leaf = await selectLeaf(sql, size);
    return new Term(deps, {
      progress: { ...before, checkpointSize: last?.size ?? 0, checkpointAt: last?.createdAt },
      end: {
        tree: growTree(size, await compactRange(sql, size)),
        chainHash: leaf?.chainHash ?? FIRST_CHAIN_HASH,
      },
      floor: { position: await selectFloor(sql), sequence: 0 },
      month: leaf === undefined ? 0 : monthOf(leaf.receivedAt),
    });
  }

  /** Returns true if there may be more to do. */
  async step(writers: ReadonlySet<string>): Promise<boolean> {
    const isSettled = this.#settle(writers);
    const { entries, isAll, lowest } = await this.#nextEntries();
    this.progress.backlogEntries = entries.length;
    const batch = numberEntries(this.#end, entries);
    const checkpoint = this.#sign();
    if (entries.length > 0 || checkpoint !== undefined)
      await insertBatch(this.#deps.sql, { ...batch, checkpoint });
    this.#afterCommit(entries);
    if (checkpoint !== undefined) await this.#publish(checkpoint);
    if (isSettled && (isAll || lowest > this.#ahead.position)) {
      this.#floor = this.#ahead;
      this.#ahead = await this.#nextFloor(entries, isAll);
      this.#writers = undefined;
    }
    return entries.length > 0 && !isAll;
  }

  #settle(writers: ReadonlySet<string>): boolean {
    this.#writers = this.#writers?.intersection(writers) ?? writers;
    return this.#writers.size === 0;
  }

  /** Returns entries of one month only, so that retention can remove a month as one range of numbers. */
  async #nextEntries(): Promise<NextEntries> {
    const { sql, maxBatchEntries } = this.#deps;
    const floor = this.#floor;
    const entries = await selectUnnumbered(sql, floor, maxBatchEntries, undefined);
    const isAll = entries.length < maxBatchEntries;
    const lowest = entries[0]?.position ?? floor.position;
    const later = entries.map(({ entry }) => monthOf(entry.receivedAt)).filter((each) => each > this.#month);
    if (later.length === 0) return { entries, isAll, lowest };
    const next = Math.min(...later);
    const boundary = startOfMonth(next);
    const mayStillCome = await hasTransactionFromBefore(sql, boundary);
    const before = await selectUnnumbered(sql, floor, maxBatchEntries, boundary);
    if (before.length > 0 || mayStillCome) return { entries: before, isAll: false, lowest };
    const ofNext = entries.filter(({ entry }) => monthOf(entry.receivedAt) === next);
    return { entries: ofNext, isAll: isAll && ofNext.length === entries.length, lowest };
  }

  #sign(): SignedCheckpoint | undefined {
    const { signer, now } = this.#deps;
    const { tree } = this.#end;
    const { checkpointSize, checkpointAt } = this.progress;
    const isNew = tree.size > checkpointSize;
    const sinceMs = now().getTime() - (checkpointAt?.getTime() ?? 0);
    if (!isNew || (sinceMs >= 0 && sinceMs < CHECKPOINT_INTERVAL_MS)) return undefined;
    const head = { size: tree.size, root: tree.root() };
    return {
      origin: signer.origin,
      size: head.size,
      rootHash: head.root,
      note: signer.checkpoint(head, now()),
      floorPosition: this.#floor.position,
    };
  }

  #afterCommit(entries: readonly StoredEntry[]): void {
    this.progress.size = this.#end.tree.size;
    if (entries.length === 0) return;
    this.progress.numberedAt = this.#deps.now();
    this.#month = Math.max(this.#month, ...entries.map(({ entry }) => monthOf(entry.receivedAt)));
  }

  async #publish({ size, rootHash, note }: SignedCheckpoint): Promise<void> {
    this.progress.checkpointSize = size;
    this.progress.checkpointAt = this.#deps.now();
    await this.#deps.publish(note, { size, root: rootHash });
  }

  /** In a backlog the floor advances with each batch. Otherwise each step would read the numbered entries again. */
  async #nextFloor(entries: readonly StoredEntry[], isAll: boolean): Promise<Floor> {
    if (isAll) return { position: await selectLastPosition(this.#deps.sql), sequence: this.#end.tree.size };
    const { position, sequence } = this.#floor;
    return { position: entries.at(-1)?.position ?? position, sequence };
  }
}

export interface LogEnd {
  tree: GrowingTree;
  chainHash: Buffer;
}

export function numberEntries(
  end: LogEnd,
  entries: readonly StoredEntry[],
): { leaves: Leaf[]; subtrees: (TreeNode & { hash: Buffer })[] } {
  const leaves: Leaf[] = [];
  const subtrees: (TreeNode & { hash: Buffer })[] = [];
  for (const { position, entry } of entries) {
    const sequence = end.tree.size + 1;
    const leafHash = hashLeaf(leafData({ ...entry, sequence }));
    end.chainHash = chainHash(end.chainHash, leafHash);
    for (const node of end.tree.append(leafHash)) {
      if (node.level % KEPT_LEVELS === 0) subtrees.push(node);
    }
    leaves.push({ sequence, position, receivedAt: entry.receivedAt, leafHash, chainHash: end.chainHash });
  }
  return { leaves, subtrees };
}
