import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { runTool } from "./tools.ts";

const CLIENTS = resolve(import.meta.dirname, "..");

const READING = "sec, nsec, mono := runtimeNow()";
const JUMP = `package time

import "sync/atomic"

var wallJumpS atomic.Int64

// JumpWallClock moves what Now returns, and leaves its monotonic reading alone.
func JumpWallClock(by Duration) { wallJumpS.Add(int64(by / Second)) }
`;

/** Go reads its clock without the C library, so its `time.Now` is replaced at the build. @returns the driver's command. */
export async function buildGoDriver(): Promise<readonly string[]> {
  const folder = join(CLIENTS, "dist", "conformance-go");
  await mkdir(folder, { recursive: true });
  const module = join(CLIENTS, "go");
  await runTool("go", ["vet", "./..."], { cwd: module }); // Its own tests compile, too.
  const goroot = await runTool("go", ["env", "GOROOT"]);
  const time = join(goroot.trim(), "src", "time");
  const source = await readFile(join(time, "time.go"), "utf8");
  if (source.split(READING).length !== 2)
    throw new Error("this version of Go reads its clock in another way");
  const files = {
    [join(time, "time.go")]: source.replace(READING, `${READING}\n\tsec += wallJumpS.Load()`),
    [join(time, "wall_jump.go")]: JUMP,
  };
  const overlay: Record<string, string> = {};
  for (const [index, [path, text]] of Object.entries(files).entries()) {
    const changed = join(folder, `${index}.go`);
    await writeFile(changed, text);
    overlay[path] = changed;
  }
  const overlayFile = join(folder, "overlay.json");
  await writeFile(overlayFile, JSON.stringify({ Replace: overlay }));
  const program = join(folder, "driver");
  const options = ["-overlay", overlayFile, "-tags", "jump", "-o", program];
  await runTool("go", ["build", ...options, "./internal/conformance"], { cwd: module });
  return [program];
}
