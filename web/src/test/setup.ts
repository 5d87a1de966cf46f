// What Mantine and ECharts expect of a browser and happy-dom does not have.
import { cleanup } from "@testing-library/react";
import { afterEach, vi } from "vitest";

Object.defineProperty(window, "matchMedia", {
  writable: true,
  value: (query: string): Partial<MediaQueryList> => ({
    matches: query === "",
    media: query,
    onchange: null,
    addListener() {},
    removeListener() {},
    addEventListener() {},
    removeEventListener() {},
    dispatchEvent: () => false,
  }),
});

class StillObserver implements ResizeObserver {
  observe() {}
  unobserve() {}
  disconnect() {}
}
globalThis.ResizeObserver = StillObserver;

// A canvas draws nothing here: tests see a chart's label and the names of its lines.
vi.mock("../components/chart/time-chart", async () => ({ default: (await import("./still-chart")).StillChart }));

/** Server-sent events that never come; tests emit them by hand. */
export class StillEvents extends EventTarget {
  static readonly open: StillEvents[] = [];
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly url: string;

  constructor(url: string) {
    super();
    this.url = url;
    StillEvents.open.push(this);
  }

  emit(type: string, data: unknown): void {
    this.dispatchEvent(new MessageEvent(type, { data: JSON.stringify(data) }));
  }

  close(): void {
    StillEvents.open.splice(StillEvents.open.indexOf(this), 1);
  }
}
vi.stubGlobal("EventSource", StillEvents);

afterEach(cleanup);
