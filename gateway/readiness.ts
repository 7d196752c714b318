/** Passes forever after its first success: a shared dependency must not make all replicas unready. */
export function oncePassed(check: () => void): () => void {
  let hasPassed = false;
  return () => {
    if (hasPassed) return;
    check();
    hasPassed = true;
  };
}
