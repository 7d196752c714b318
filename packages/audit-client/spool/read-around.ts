import type { SpoolFile } from "./spool-file-system.ts";

const BLOCK_BYTES = 4_096;
/** A failing disk needs seconds for each bad block. */
const MAX_BAD_BLOCKS = 16;

/** Replaces bad blocks by zeros. @throws the file system's error after 16 bad blocks. */
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
