// The states every list, chart and detail passes through: loading, error, empty, stale.
import { Alert, Button, Card, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconClockExclamation, IconPlugConnectedX } from "@tabler/icons-react";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Problem } from "../api/problem";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";

const STALE_SECONDS = 180;

/** An error in words for people; the service's detail when it gave one. */
export function useProblemText(): (error: unknown) => string {
  const { t } = useTranslation();
  return (error) => {
    if (!(error instanceof Problem)) return error instanceof Error ? error.message : String(error);
    if (error.status === 0) return error.message === "timeout" ? t("state.timeout") : t("state.unreachable");
    if (error.status >= 500 && error.status !== 503) return t("state.internal");
    return error.message;
  };
}

export function ProblemNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { t } = useTranslation();
  const text = useProblemText();
  return (
    <Alert
      color="red"
      variant="light"
      icon={<IconPlugConnectedX size={18} />}
      title={t("state.errorTitle")}
      role="alert"
    >
      <Stack gap="sm" align="flex-start">
        <Text size="sm">{text(error)}</Text>
        {onRetry && (
          <Button size="xs" variant="default" onClick={onRetry}>
            {t("common.retry")}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

export function StaleNote({ children, onRetry }: { children: ReactNode; onRetry?: () => void }) {
  const { t } = useTranslation();
  return (
    <Alert
      color="yellow"
      variant="light"
      py={8}
      px="md"
      icon={<IconClockExclamation size={18} />}
      role="status"
      className="stale-note"
    >
      <Group justify="space-between" gap="md" wrap="nowrap">
        <Text size="sm">{children}</Text>
        {onRetry && (
          <Button size="compact-xs" variant="default" onClick={onRetry}>
            {t("common.retry")}
          </Button>
        )}
      </Group>
    </Alert>
  );
}

export function Empty({
  icon,
  title,
  text,
  action,
  height = 220,
}: {
  icon?: ReactNode;
  title: string;
  text?: string;
  action?: ReactNode;
  height?: number;
}) {
  return (
    <Stack align="center" justify="center" gap={6} mih={height} p="lg" ta="center">
      {icon && <Text c="dimmed">{icon}</Text>}
      <Text fw={600}>{title}</Text>
      {text && (
        <Text size="sm" c="dimmed" maw={440}>
          {text}
        </Text>
      )}
      {action && <Group mt="sm">{action}</Group>}
    </Stack>
  );
}

export function TableSkeleton({ rows = 8 }: { rows?: number }) {
  const { t } = useTranslation();
  return (
    <Stack gap={0} aria-busy="true" aria-label={t("state.loading")} role="status">
      {Array.from({ length: rows + 1 }, (_, i) => i).map((i) => (
        <Group key={i} h={45} px="md" gap="xl" wrap="nowrap" style={{ borderBottom: "1px solid var(--hairline)" }}>
          <Skeleton height={12} width="26%" opacity={i === 0 ? 0.6 : 1} />
          <Skeleton height={12} width="14%" opacity={i === 0 ? 0.6 : 1} />
          <Skeleton height={12} width="18%" opacity={i === 0 ? 0.6 : 1} />
          <Skeleton height={12} width="10%" ml="auto" opacity={i === 0 ? 0.6 : 1} />
        </Group>
      ))}
    </Stack>
  );
}

export function BlockSkeleton({ height }: { height: number }) {
  const { t } = useTranslation();
  return <Skeleton height={height} radius="md" aria-busy="true" aria-label={t("state.loading")} role="status" />;
}

export function CardSkeleton({ height }: { height: number }) {
  return (
    <Card className="card">
      <BlockSkeleton height={height} />
    </Card>
  );
}

/** Shows a query in whatever state it is: skeleton, problem, empty, or its data with a note when that data is old. */
export function Gate<T>({
  query,
  skeleton,
  isEmpty,
  empty,
  children,
}: {
  query: UseQueryResult<T>;
  skeleton: ReactNode;
  isEmpty?: (data: T) => boolean;
  empty?: ReactNode;
  children: (data: T) => ReactNode;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(15);
  const { data, error, isPending, isError, refetch, dataUpdatedAt } = query;
  if (isPending) return skeleton;
  if (data === undefined) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  const age = (now.getTime() - dataUpdatedAt) / 1000;
  const content = isEmpty?.(data) ? empty : children(data);
  if (isError) {
    return (
      <Stack gap="md">
        <StaleNote onRetry={() => void refetch()}>
          {t("state.stale", { time: f.clock(new Date(dataUpdatedAt)) })}
        </StaleNote>
        {content}
      </Stack>
    );
  }
  if (age > STALE_SECONDS) {
    return (
      <Stack gap="md">
        <StaleNote onRetry={() => void refetch()}>{t("state.staleAge", { age: f.duration(age) })}</StaleNote>
        {content}
      </Stack>
    );
  }
  return content;
}
