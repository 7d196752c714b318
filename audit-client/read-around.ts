import type { SpoolFile } from "./spool-file-system.ts";

const BLOCK_BYTES = 4_096;
/** A disk that fails takes seconds for each bad block: a file with more of them is given up. */
const MAX_BAD_BLOCKS = 16;

/**
 * Reads a range of a file although blocks of it are bad. Those are zeros in what is returned, which is no record.
 *
 * @param length at most what a caller can hold; less is returned at the end of the file.
 * @throws what the file system says once there are more than 16 bad blocks.
 */
export async function readAround(
  file: SpoolFile,
  position: number,
  length: number,
): Promise<{ bytes: Buffer; hasBadBlocks: boolean }> {
  try {
    return { bytes: await file.read(position, length), hasBadBlocks: false };
  } catch {
    return { bytes: await readBlocks(file, position, length), hasBadBlocks: true };
  }
}

async function readBlocks(file: SpoolFile, position: number, length: number): Promise<Buffer> {
  const blocks: Buffer[] = [];
  let badBlocks = 0;
  for (let at = position; at < position + length; ) {
    const end = Math.min(at - (at % BLOCK_BYTES) + BLOCK_BYTES, position + length);
    let block: Buffer;
    try {
      block = await file.read(at, end - at);
    } catch (error) {
      badBlocks += 1;
      if (badBlocks > MAX_BAD_BLOCKS) throw error;
      block = Buffer.alloc(end - at);
    }
    blocks.push(block);
    if (block.length < end - at) break;
    at = end;
  }
  return Buffer.concat(blocks);
}
