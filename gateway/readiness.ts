/**
 * Passes for good after its first success. A shared dependency must not make all replicas unready at once. Their calls
 * answer 503.
 */
export function oncePassed(check: () => void): () => void {
  let hasPassed = false;
  return () => {
    if (hasPassed) return;
    check();
    hasPassed = true;
  };
}
