import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Machine, Pool } from "../api/spot";
import { cloudName } from "../lib/cloud";
import { type Format, useFormat } from "../lib/format";
import type { Money } from "../lib/money";

/** "8 × H100, 80 GiB"; without GPUs its cores and memory. */
export function machineText(f: Format, m: Machine | null, cores: (count: string) => string): string {
  if (!m) return "–";
  if (m.gpuCount === 0) return `${cores(f.number(m.cpuCores))}, ${f.mebibytes(m.memoryMib)}`;
  return `${f.integer(m.gpuCount)} × ${m.gpuModel}${m.gpuMemoryMib > 0 ? `, ${f.mebibytes(m.gpuMemoryMib)}` : ""}`;
}

export function MachineText({ machine }: { machine: Machine | null }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <Text size="sm" style={{ whiteSpace: "nowrap" }}>
      {machineText(f, machine, (value) => t("unit.cores", { value }))}
    </Text>
  );
}

/** A machine type with where it is sold. */
export function OfferingName({
  type,
  cloud,
  place,
  onClick,
}: {
  type: string;
  cloud: string;
  place: string;
  onClick?: () => void;
}) {
  return (
    <div>
      {onClick ? (
        <button type="button" className="cell-button" onClick={onClick}>
          {type}
        </button>
      ) : (
        <Text size="sm" fw={550} style={{ whiteSpace: "nowrap" }}>
          {type}
        </Text>
      )}
      <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
        {[cloudName(cloud), place].filter(Boolean).join(" · ")}
      </Text>
    </div>
  );
}

export function PoolName({ pool, machine, onClick }: { pool: Pool; machine?: Machine | null; onClick?: () => void }) {
  const f = useFormat();
  const gpus = machine && machine.gpuCount > 0 ? `${f.integer(machine.gpuCount)} × ${machine.gpuModel}` : "";
  return (
    <OfferingName
      type={pool.instanceType}
      cloud={pool.cloud}
      place={[pool.zone || pool.region, gpus].filter(Boolean).join(" · ")}
      onClick={onClick}
    />
  );
}

/** A price per hour; what nobody knows is a dash, never zero. */
export function Price({ value, strong }: { value: Money | null; strong?: boolean }) {
  const f = useFormat();
  if (!value)
    return (
      <Text size="sm" c="dimmed">
        –
      </Text>
    );
  return (
    <Text size="sm" fw={strong ? 600 : undefined} className="number">
      {f.money(value, { style: "fine" })}
    </Text>
  );
}
