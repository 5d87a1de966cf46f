export type Role = "owner" | "admin" | "operator" | "finance" | "viewer";

/** The same rule as the service's: what a button may offer. The service decides again. */
export function allows(role: Role, need: Role): boolean {
  switch (role) {
    case "owner":
      return true;
    case "admin":
      return need !== "owner";
    case "operator":
    case "finance":
      return need === role || need === "viewer";
    case "viewer":
      return need === "viewer";
  }
}
