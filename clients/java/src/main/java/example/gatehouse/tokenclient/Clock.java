package example.gatehouse.tokenclient;

/** Both clocks, in seconds. */
interface Clock {
  Clock SYSTEM =
      new Clock() {
        @Override
        public double monotonicS() {
          return System.nanoTime() / 1e9;
        }

        @Override
        public double wallS() {
          return System.currentTimeMillis() / 1e3;
        }
      };

  double monotonicS();

  double wallS();
}
