import { Stack, Tabs, Text } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { PageHead } from "../components/page";
import { useMay } from "./me";
import { SETTINGS_TABS } from "./search";
import { AuditTab } from "./settings-audit";
import { CalendarTab } from "./settings-calendar";
import { KeysTab } from "./settings-keys";
import { MembersTab } from "./settings-members";

export function SettingsPage() {
  const { t } = useTranslation();
  const { tab = "keys" } = useSearch({ from: "/signed-in/settings" });
  const navigate = useNavigate();
  const mayManage = useMay("admin");
  return (
    <>
      <PageHead title={t("settings.title")} />
      <Stack gap="md">
        <Tabs
          value={tab}
          onChange={(value) => {
            const next = SETTINGS_TABS.find((name) => name === value);
            if (next) void navigate({ to: "/settings", search: { tab: next } });
          }}
        >
          <Tabs.List>
            {SETTINGS_TABS.map((name) => (
              <Tabs.Tab key={name} value={name}>
                {t(`settings.tabs.${name}`)}
              </Tabs.Tab>
            ))}
          </Tabs.List>
        </Tabs>
        {!mayManage && tab !== "members" ? (
          <Text c="dimmed">{t("common.needsRole", { role: t("role.admin") })}</Text>
        ) : (
          <>
            {tab === "keys" && <KeysTab />}
            {tab === "members" && <MembersTab />}
            {tab === "audit" && <AuditTab />}
            {tab === "calendar" && <CalendarTab />}
          </>
        )}
      </Stack>
    </>
  );
}
