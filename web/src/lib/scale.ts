const STEPS = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** The next round number that is not below a value, so that an axis ends on a label. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const base = 10 ** Math.floor(Math.log10(value));
  const step = STEPS.find((s) => s * base >= value * (1 - 1e-9)) ?? 10;
  return Number((step * base).toPrecision(4));
}
