/** An RFC 9457 answer, or a request that got none (status 0). */
export class Problem extends Error {
  readonly status: number;
  readonly title: string;
  readonly fields: readonly { field: string; message: string }[];

  constructor(
    status: number,
    title: string,
    detail: string,
    fields: readonly { field: string; message: string }[] = [],
  ) {
    super(detail || title);
    this.name = "Problem";
    this.status = status;
    this.title = title;
    this.fields = fields;
  }
}

/** Reads a problem body; a body that is none still gives the status. */
export function readProblem(status: number, statusText: string, body: unknown): Problem {
  if (typeof body !== "object" || body === null) return new Problem(status, statusText, "");
  const get = (key: string): unknown => (body as Record<string, unknown>)[key];
  const title = get("title");
  const detail = get("detail");
  const errors = get("errors");
  const fields: { field: string; message: string }[] = [];
  if (Array.isArray(errors)) {
    for (const e of errors as unknown[]) {
      if (typeof e !== "object" || e === null) continue;
      const { location, message } = e as Record<string, unknown>;
      fields.push({
        field: typeof location === "string" ? location.replace(/^body\./, "") : "",
        message: typeof message === "string" ? message : "",
      });
    }
  }
  return new Problem(
    status,
    typeof title === "string" ? title : statusText,
    typeof detail === "string" ? detail : "",
    fields,
  );
}

export function isProblem(error: unknown, status: number): boolean {
  return error instanceof Problem && error.status === status;
}
