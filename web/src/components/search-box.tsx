import { CloseButton, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

const WAIT_MS = 300;

/** A text filter that tells its value when typing pauses. */
export function SearchBox({
  value,
  placeholder,
  onChange,
  width = 260,
}: {
  value: string;
  placeholder: string;
  onChange: (value: string) => void;
  width?: number;
}) {
  const { t } = useTranslation();
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onChange(text), WAIT_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <TextInput
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      placeholder={placeholder}
      aria-label={placeholder}
      leftSection={<IconSearch size={16} />}
      rightSection={text ? <CloseButton size="sm" aria-label={t("common.clear")} onClick={() => setText("")} /> : null}
      w={width}
      size="sm"
      maxLength={200}
    />
  );
}
