/** How far a signal can be believed. Only a fresh one may ever lead to a scale-down. */
export const TRUTHS = ["fresh", "stale", "missing", "conflicting"] as const;
export type Truth = (typeof TRUTHS)[number];
