export function ClusterPage() {
  return null;
}
