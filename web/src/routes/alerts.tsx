export function AlertsPage() {
  return null;
}
