export function DecisionsPage() {
  return null;
}
