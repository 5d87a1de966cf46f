import { Button, Code, Stack, Text, Title } from "@mantine/core";
import { IconCompass, IconMoodSad } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { Problem } from "../api/problem";
import { LinkButton } from "../components/link";
import { ProblemNote } from "../components/state";

export function NotFound() {
  const { t } = useTranslation();
  return (
    <Stack align="center" justify="center" mih="60vh" gap="sm" ta="center" p="lg">
      <IconCompass size={44} stroke={1.4} />
      <Title order={1}>{t("notFound.title")}</Title>
      <Text c="dimmed">{t("notFound.text")}</Text>
      <LinkButton to="/" mt="sm">
        {t("notFound.back")}
      </LinkButton>
    </Stack>
  );
}

export function Crash({ error }: { error: unknown }) {
  const { t } = useTranslation();
  if (error instanceof Problem) {
    return (
      <Stack maw={560} mx="auto" mt={80} p="lg">
        <ProblemNote error={error} onRetry={() => window.location.reload()} />
      </Stack>
    );
  }
  return (
    <Stack align="center" justify="center" mih="60vh" gap="sm" ta="center" p="lg">
      <IconMoodSad size={44} stroke={1.4} />
      <Title order={1}>{t("state.crashTitle")}</Title>
      <Text c="dimmed">{t("state.crashText")}</Text>
      <Code block maw={700}>
        {error instanceof Error ? error.message : String(error)}
      </Code>
      <Button mt="sm" onClick={() => window.location.reload()}>
        {t("state.reload")}
      </Button>
    </Stack>
  );
}
