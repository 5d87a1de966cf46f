import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { fakeApi } from "./src/test/vite-plugin.ts";

// `vite` talks to a running service; `vite --mode fake` answers from src/test/fake-api.ts and needs nothing else.
export default defineConfig(({ mode }) => ({
  plugins: [react(), ...(mode === "fake" ? [fakeApi()] : [])],
  server: {
    host: "127.0.0.1",
    proxy: mode === "fake" ? undefined : { "/api": process.env.PLIMSOLL_URL ?? "http://127.0.0.1:8080" },
  },
  build: { target: "es2022", sourcemap: false, chunkSizeWarningLimit: 900 },
  test: { environment: "happy-dom", setupFiles: ["./src/test/setup.ts"], maxWorkers: 1, testTimeout: 30_000 },
}));
