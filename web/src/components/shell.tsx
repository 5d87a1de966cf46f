import {
  ActionIcon,
  AppShell,
  Avatar,
  Badge,
  Box,
  Burger,
  Group,
  Menu,
  NavLink,
  ScrollArea,
  Slider,
  Text,
  Tooltip,
  UnstyledButton,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import {
  IconBell,
  IconBolt,
  IconChartAreaLine,
  IconChartLine,
  IconChecklist,
  IconCloud,
  IconCoins,
  IconContract,
  IconDeviceDesktop,
  IconFileInvoice,
  IconFlask,
  IconGridDots,
  IconHome,
  IconLanguage,
  IconListSearch,
  IconLogout,
  IconMoon,
  IconPigMoney,
  IconPlayerTrackNext,
  IconReceipt,
  IconServer2,
  IconSettings,
  IconStack2,
  IconSun,
  IconTargetArrow,
  IconTopologyStar3,
  IconTrendingUp,
  IconWallet,
  IconWebhook,
} from "@tabler/icons-react";
import { Link, useRouterState } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { LiveState } from "../api/live";
import type { Me } from "../api/me";
import { setLanguage } from "../i18n";
import { useFormat } from "../lib/format";
import { Logo } from "./logo";

const SECTIONS = [
  {
    name: "operate",
    links: [
      { to: "/", label: "overview", icon: IconHome },
      { to: "/clusters", label: "clusters", icon: IconServer2 },
      { to: "/workloads", label: "workloads", icon: IconStack2 },
      { to: "/services", label: "services", icon: IconTopologyStar3 },
      { to: "/decisions", label: "decisions", icon: IconTargetArrow },
      { to: "/approvals", label: "approvals", icon: IconChecklist },
      { to: "/replay", label: "replay", icon: IconFlask },
    ],
  },
  {
    name: "spend",
    links: [
      { to: "/cost", label: "cost", icon: IconChartAreaLine },
      { to: "/savings", label: "savings", icon: IconPigMoney },
      { to: "/units", label: "units", icon: IconCoins },
      { to: "/statements", label: "statements", icon: IconReceipt },
      { to: "/budgets", label: "budgets", icon: IconWallet },
      { to: "/anomalies", label: "anomalies", icon: IconTrendingUp },
      { to: "/reconciliation", label: "reconciliation", icon: IconFileInvoice },
    ],
  },
  {
    name: "market",
    links: [
      { to: "/catalogue", label: "catalogue", icon: IconListSearch },
      { to: "/spot", label: "spot", icon: IconChartLine },
      { to: "/availability", label: "availability", icon: IconGridDots },
      { to: "/commitments", label: "commitments", icon: IconContract },
    ],
  },
  {
    name: "manage",
    links: [
      { to: "/alerts", label: "alerts", icon: IconBell },
      { to: "/webhooks", label: "webhooks", icon: IconWebhook },
      { to: "/cloud-accounts", label: "accounts", icon: IconCloud },
      { to: "/settings", label: "settings", icon: IconSettings },
    ],
  },
] as const;

const LIVE_COLOR: Record<LiveState, string> = {
  connecting: "var(--mantine-color-gray-5)",
  live: "var(--mantine-color-teal-6)",
  lost: "var(--mantine-color-orange-6)",
};

function LiveDot({ live }: { live: LiveState }) {
  const { t } = useTranslation();
  return (
    <Tooltip label={t(`shell.liveHint.${live}`)}>
      <Group gap={6} wrap="nowrap" role="status" data-live={live}>
        <span className="live-dot" style={{ background: LIVE_COLOR[live] }} />
        <Text size="sm" c="dimmed" visibleFrom="md">
          {t(`shell.live.${live}`)}
        </Text>
      </Group>
    </Tooltip>
  );
}

const SPEEDS = [1, 10, 60, 300, 600];

function SpeedControl({ speed, onSpeed }: { speed: number; onSpeed?: (value: number) => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const at = SPEEDS.reduce((best, s, i) => (Math.abs(s - speed) < Math.abs((SPEEDS[best] ?? 1) - speed) ? i : best), 0);
  const badge = (
    <Badge
      color="grape"
      variant="light"
      size="lg"
      leftSection={<IconPlayerTrackNext size={13} />}
      style={{ cursor: onSpeed ? "pointer" : "default" }}
    >
      {t("shell.demo")} {f.integer(speed)}×
    </Badge>
  );
  if (!onSpeed) return <Tooltip label={t("shell.speed", { speed: f.integer(speed) })}>{badge}</Tooltip>;
  return (
    <Menu shadow="md" width={280} closeOnItemClick={false}>
      <Menu.Target>
        <UnstyledButton aria-label={t("shell.speedHint")}>{badge}</UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Box px="md" pt="sm" pb={34}>
          <Text size="sm" mb="xs">
            {t("shell.speedHint")}
          </Text>
          <Slider
            aria-label={t("shell.speedHint")}
            min={0}
            max={SPEEDS.length - 1}
            step={1}
            defaultValue={at}
            label={null}
            marks={SPEEDS.map((s, i) => ({ value: i, label: `${s}×` }))}
            onChangeEnd={(i) => onSpeed(SPEEDS[i] ?? 1)}
          />
        </Box>
      </Menu.Dropdown>
    </Menu>
  );
}

function Preferences() {
  const { t, i18n } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const schemes = [
    { value: "light", icon: IconSun },
    { value: "dark", icon: IconMoon },
    { value: "auto", icon: IconDeviceDesktop },
  ] as const;
  const words = { light: t("shell.light"), dark: t("shell.dark"), auto: t("shell.system") };
  return (
    <Group gap={4} wrap="nowrap">
      <Tooltip label={t("shell.language")}>
        <ActionIcon
          variant="subtle"
          color="gray"
          size="lg"
          aria-label={t("shell.language")}
          onClick={() => setLanguage(i18n.language === "zh" ? "en" : "zh")}
        >
          <IconLanguage size={19} />
        </ActionIcon>
      </Tooltip>
      <Menu shadow="md" width={190}>
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t("shell.scheme")}>
            {colorScheme === "dark" ? <IconMoon size={19} /> : <IconSun size={19} />}
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {schemes.map(({ value, icon: Icon }) => (
            <Menu.Item
              key={value}
              leftSection={<Icon size={16} />}
              onClick={() => setColorScheme(value)}
              fw={colorScheme === value ? 650 : 400}
            >
              {words[value]}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
}

function Account({ me, onSignOut }: { me: Me; onSignOut: () => void }) {
  const { t } = useTranslation();
  return (
    <Menu shadow="md" width={240}>
      <Menu.Target>
        <UnstyledButton aria-label={t("shell.account")}>
          <Avatar name={me.user.displayName || me.user.email} color="sea" size={32} radius="xl" />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Box px="sm" py="xs">
          <Text size="sm" fw={600}>
            {me.user.displayName}
          </Text>
          <Text size="xs" c="dimmed">
            {me.user.email}
          </Text>
          <Text size="xs" c="dimmed" mt={4}>
            {me.tenant.name} · {t(`role.${me.role}`)}
          </Text>
        </Box>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={onSignOut}>
          {t("shell.signOut")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

export function Shell({
  me,
  live,
  dataNow,
  waiting,
  alerts,
  speed,
  onSpeed,
  onSignOut,
  children,
}: {
  me: Me;
  live: LiveState;
  dataNow: Date;
  waiting: number;
  alerts: number;
  /** null: nothing is simulated here. */
  speed: number | null;
  onSpeed?: (value: number) => void;
  onSignOut: () => void;
  children: ReactNode;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const [opened, menu] = useDisclosure(false);
  const path = useRouterState({ select: (s) => s.location.pathname });
  const counts: Record<string, number> = { approvals: waiting, alerts };
  const active = (to: string) => (to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`));
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 224, breakpoint: "sm", collapsed: { mobile: !opened } }}
      padding={{ base: "md", md: "xl" }}
    >
      <a href="#content" className="skip-link">
        {t("nav.skip")}
      </a>
      <AppShell.Header px="md" style={{ borderColor: "var(--hairline)" }}>
        <Group h="100%" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label={t("nav.menu")} />
            <Link to="/" className="quiet-link" aria-label="Plimsoll">
              <Logo />
            </Link>
            <Text size="sm" c="dimmed" visibleFrom="md" pl="sm" style={{ borderLeft: "1px solid var(--hairline)" }}>
              {me.tenant.name}
            </Text>
          </Group>
          <Group gap="md" wrap="nowrap" className="header-tools">
            {speed !== null && <SpeedControl speed={speed} onSpeed={onSpeed} />}
            <Tooltip label={t("shell.dataNowHint", { zone: f.zone })}>
              <Text size="sm" c="dimmed" className="number" visibleFrom="sm" style={{ whiteSpace: "nowrap" }}>
                {t("shell.dataNow", { time: f.dateTime(dataNow) })}
              </Text>
            </Tooltip>
            <LiveDot live={live} />
            <Preferences />
            <Account me={me} onSignOut={onSignOut} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav" aria-label={t("nav.menu")} style={{ borderColor: "var(--hairline)" }}>
        <AppShell.Section grow component={ScrollArea} type="scroll" scrollbarSize={6}>
          {SECTIONS.map((section) => (
            <div key={section.name}>
              <div className="nav-section">{t(`nav.sections.${section.name}`)}</div>
              {section.links.map(({ to, label, icon: Icon }) => (
                <NavLink
                  key={to}
                  component={Link}
                  to={to}
                  className="nav-link"
                  label={t(`nav.${label}`)}
                  leftSection={<Icon size={18} stroke={1.7} />}
                  rightSection={
                    counts[label] ? (
                      <Badge
                        size="sm"
                        variant="filled"
                        color={label === "alerts" ? "red" : "violet"}
                        circle={counts[label] < 10}
                      >
                        {f.integer(counts[label])}
                      </Badge>
                    ) : undefined
                  }
                  active={active(to)}
                  aria-current={active(to) ? "page" : undefined}
                  onClick={menu.close}
                />
              ))}
            </div>
          ))}
        </AppShell.Section>
        <Group px="sm" pt="xs" gap={6} c="dimmed">
          <IconBolt size={14} />
          <Text size="xs">{f.zone}</Text>
        </Group>
      </AppShell.Navbar>
      <AppShell.Main className="shell-main">
        <div className="page" id="content" tabIndex={-1} style={{ outline: "none" }}>
          {children}
        </div>
      </AppShell.Main>
    </AppShell>
  );
}
