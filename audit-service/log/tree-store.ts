import type { Sql } from "#kit/database/postgres.ts";
import { hashRange, type TreeNode } from "./merkle-tree.ts";

export const KEPT_LEVELS = 8;

interface HashRow {
  wanted: number;
  hash: Buffer;
}

export async function selectNodes(sql: Sql, nodes: readonly TreeNode[]): Promise<(Buffer | undefined)[]> {
  const parts = nodes.map(({ level, index }, wanted) => {
    const kept = level - (level % KEPT_LEVELS);
    const width = 2 ** (level - kept);
    return { wanted, level: kept, begin: index * width, width };
  });
  const onLeaves = JSON.stringify(parts.filter(({ level }) => level === 0));
  const above = JSON.stringify(parts.filter(({ level }) => level > 0));
  const rows = await sql<HashRow[]>`
    select p.wanted, t.hash from json_to_recordset(${onLeaves}::text::json)
      as p (wanted integer, level smallint, begin bigint, width bigint)
    cross join lateral (
      select l.sequence as place, l.leaf_hash as hash from leaves as l
      where l.sequence > p.begin and l.sequence <= p.begin + p.width order by l.sequence limit 256
    ) as t
    union all
    select p.wanted, t.hash from json_to_recordset(${above}::text::json)
      as p (wanted integer, level smallint, begin bigint, width bigint)
    cross join lateral (
      select s.index as place, s.hash from subtrees as s
      where s.level = p.level and s.index >= p.begin and s.index < p.begin + p.width order by s.index limit 256
    ) as t
  `;
  const found = Map.groupBy(rows, ({ wanted }) => wanted);
  return parts.map(({ wanted, width }) => {
    const hashes = found.get(wanted)?.map(({ hash }) => hash) ?? [];
    return hashes.length === width ? foldPerfect(hashes) : undefined;
  });
}

/** Requires a power of two. */
function foldPerfect(hashes: readonly Buffer[]): Buffer {
  let level = [...hashes];
  while (level.length > 1) {
    level = Array.from({ length: level.length / 2 }, (_, index) =>
      hashRange(level.slice(2 * index, 2 * index + 2)),
    );
  }
  return level[0] as Buffer;
}

export async function selectLeaf(
  sql: Sql,
  sequence: number,
): Promise<{ leafHash: Buffer; chainHash: Buffer; receivedAt: Date } | undefined> {
  const [row] = await sql<{ leafHash: Buffer; chainHash: Buffer; receivedAt: Date }[]>`
    select leaf_hash as "leafHash", chain_hash as "chainHash", received_at as "receivedAt"
    from leaves where sequence = ${sequence}
  `;
  return row;
}

export async function selectSize(sql: Sql): Promise<number> {
  const [row] = await sql<{ size: string | null }[]>`select max(sequence) as size from leaves`;
  return Number(row?.size ?? 0);
}
