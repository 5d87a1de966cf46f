export function DecisionPage() {
  return null;
}
