import {
  Alert,
  Button,
  Card,
  Center,
  Group,
  PasswordInput,
  SegmentedControl,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery, signIn } from "../api/me";
import { isProblem } from "../api/problem";
import { Mark } from "../components/logo";
import { useProblemText } from "../components/state";
import { LANGUAGES, setLanguage } from "../i18n";

/** Only paths of this site: a link may not lead a signed-in person elsewhere. */
export function safeNext(next: string | undefined): string {
  return next?.startsWith("/") && !next.startsWith("//") && !next.startsWith("/\\") && !next.startsWith("/sign-in")
    ? next
    : "/";
}

export function SignInPage() {
  const { t, i18n } = useTranslation();
  const { next } = useSearch({ from: "/sign-in" });
  const queries = useQueryClient();
  const router = useRouter();
  const navigate = useNavigate();
  const problemText = useProblemText();
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const form = useForm({ initialValues: { email: "", password: "" } });

  useEffect(() => {
    document.title = `${t("auth.submit")} · Plimsoll`;
  }, [t]);

  const submit = form.onSubmit(async ({ email, password }) => {
    if (!email.trim() || !password) {
      setFailure(t("auth.missing"));
      return;
    }
    setBusy(true);
    setFailure(null);
    try {
      const me = await signIn(email.trim(), password);
      queries.clear();
      queries.setQueryData(meQuery.queryKey, me);
      const to = safeNext(next);
      if (to === "/") await navigate({ to: "/" });
      else router.history.push(to);
    } catch (error) {
      setFailure(
        isProblem(error, 401) ? t("auth.wrong") : isProblem(error, 429) ? t("auth.limited") : problemText(error),
      );
    } finally {
      setBusy(false);
    }
  });

  return (
    <Center mih="100vh" p="md" style={{ background: "var(--page-background)" }}>
      <Stack gap="lg" w="100%" maw={400}>
        <Card className="card" padding="xl" radius="lg" shadow="sm">
          <form onSubmit={submit} noValidate>
            <Stack gap="md">
              <Group gap="sm" wrap="nowrap">
                <Mark size={40} />
                <div>
                  <Title order={1} fz={20}>
                    {t("auth.title")}
                  </Title>
                  <Text size="sm" c="dimmed">
                    {t("auth.subtitle")}
                  </Text>
                </div>
              </Group>
              {failure && (
                <Alert color="red" role="alert" py="xs">
                  {failure}
                </Alert>
              )}
              <TextInput
                label={t("auth.email")}
                type="email"
                name="email"
                autoComplete="username"
                autoFocus
                {...form.getInputProps("email")}
              />
              <PasswordInput
                label={t("auth.password")}
                name="password"
                autoComplete="current-password"
                {...form.getInputProps("password")}
              />
              <Button type="submit" loading={busy} fullWidth size="md">
                {t("auth.submit")}
              </Button>
            </Stack>
          </form>
        </Card>
        <Center>
          <SegmentedControl
            size="xs"
            value={i18n.language}
            onChange={(value) => {
              const language = LANGUAGES.find((l) => l === value);
              if (language) setLanguage(language);
            }}
            data={[
              { value: "en", label: "English" },
              { value: "zh", label: "中文" },
            ]}
          />
        </Center>
      </Stack>
    </Center>
  );
}
