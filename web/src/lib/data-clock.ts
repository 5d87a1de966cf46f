// A cluster's data has a clock of its own, which in a simulation may run faster than ours. What expires, expires by that clock.

export interface DataClock {
  dataAt: Date | null;
  lastSeenAt: Date | null;
  simulatedClock: boolean;
  clockSpeed: number;
}

/**
 * Wall seconds until the cluster's clock shows `until`: the newest data time, carried on at the clock's speed since the last report.
 * null before the first report. A report that is long past does not carry the clock on for ever: at most a minute.
 */
export function secondsUntil(until: Date, clock: DataClock, now: Date): number | null {
  if (!clock.dataAt || !clock.lastSeenAt) return null;
  const speed = clock.simulatedClock && clock.clockSpeed > 0 ? clock.clockSpeed : 1;
  const since = Math.min(60_000, Math.max(0, now.getTime() - clock.lastSeenAt.getTime()));
  const dataNow = clock.dataAt.getTime() + since * speed;
  return (until.getTime() - dataNow) / speed / 1000;
}
