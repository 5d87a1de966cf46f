import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { clusterQuery, clustersQuery } from "../api/clusters";

/** Picks a cluster by name; the service searches, so that a thousand of them cost no more than a few. */
export function ClusterSelect({
  value,
  onChange,
  label,
  placeholder,
  width,
}: {
  value: string | null;
  onChange: (id: string | null) => void;
  label?: string;
  placeholder?: string;
  width?: number;
}) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const chosen = useQuery({ ...clusterQuery(value ?? ""), enabled: value !== null });
  // The text of a chosen cluster is its name: it does not narrow the list.
  const [q] = useDebouncedValue(text === chosen.data?.name ? "" : text.trim(), 250);
  const found = useQuery({ ...clustersQuery({ q: q || undefined, limit: 25 }), placeholderData: keepPreviousData });
  const options = new Map((found.data?.items ?? []).map((c) => [c.id, c.name]));
  if (value !== null) options.set(value, chosen.data?.name ?? options.get(value) ?? value);
  return (
    <Select
      label={label}
      aria-label={label ?? t("workloads.cluster")}
      placeholder={placeholder ?? t("workloads.cluster")}
      clearable
      searchable
      w={width}
      value={value}
      searchValue={text}
      onSearchChange={setText}
      data={[...options].map(([id, name]) => ({ value: id, label: name }))}
      filter={({ options: all }) => all}
      onChange={onChange}
    />
  );
}
