export function CostPage() {
  return null;
}
