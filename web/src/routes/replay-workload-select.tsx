import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { workloadQuery, workloadsQuery } from "../api/workloads";

/** Picks a workload by a part of its key; the service searches. */
export function WorkloadSelect({ value, onChange }: { value: string | null; onChange: (id: string | null) => void }) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const chosen = useQuery({ ...workloadQuery(value ?? ""), enabled: value !== null });
  const [q] = useDebouncedValue(text === chosen.data?.key ? "" : text.trim(), 250);
  const found = useQuery({ ...workloadsQuery({ q: q || undefined, limit: 25 }), placeholderData: keepPreviousData });
  const options = new Map((found.data?.items ?? []).map((w) => [w.id, w.key]));
  if (value !== null) options.set(value, chosen.data?.key ?? options.get(value) ?? value);
  return (
    <Select
      label={t("replay.workload")}
      searchable
      value={value}
      searchValue={text}
      onSearchChange={setText}
      data={[...options].map(([id, key]) => ({ value: id, label: key }))}
      filter={({ options: all }) => all}
      onChange={onChange}
    />
  );
}
