import { expect, test } from "vitest";
import { squarify } from "./treemap";

test("areas fill the box in proportion and never overlap", () => {
  for (const areas of [[1], [6, 6, 4, 3, 2, 2, 1], Array.from({ length: 100 }, (_, i) => 100 - i)]) {
    const boxes = squarify(areas, { x: 0, y: 0, w: 300, h: 100 });
    const total = areas.reduce((a, b) => a + b, 0);
    expect(boxes).toHaveLength(areas.length);
    boxes.forEach((b, i) => {
      expect(b.w * b.h).toBeCloseTo(((areas[i] ?? 0) / total) * 30_000, 3);
      expect(b.x + b.w).toBeLessThan(300.001);
      expect(b.y + b.h).toBeLessThan(100.001);
      for (const other of boxes.slice(0, i)) {
        const across = Math.min(b.x + b.w, other.x + other.w) - Math.max(b.x, other.x);
        const down = Math.min(b.y + b.h, other.y + other.h) - Math.max(b.y, other.y);
        expect(across < 1e-6 || down < 1e-6).toBe(true);
      }
    });
  }
});
