import { Badge, Button, Group, Modal, PasswordInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { addMember, changeRole, type Member, membersQuery, ROLES, removeMember } from "../api/settings";
import { ask } from "../components/ask";
import { Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { allows, type Role } from "../lib/role";
import { useAct } from "./act";
import { useMe } from "./me";

const TOUCHES = [["settings"]];

interface NewMember {
  email: string;
  name: string;
  role: Role;
  password: string;
}

function AddMember({
  roles,
  busy,
  onClose,
  onAdd,
}: {
  roles: readonly Role[];
  busy: boolean;
  onClose: () => void;
  onAdd: (member: NewMember) => void;
}) {
  const { t } = useTranslation();
  const form = useForm<NewMember>({
    initialValues: { email: "", name: "", role: "viewer", password: "" },
    validate: { email: (v) => (/^\S+@\S+\.\S+$/.test(v.trim()) ? null : t("settings.memberEmailBad")) },
  });
  return (
    <Modal opened onClose={onClose} title={t("settings.addMember")}>
      <form onSubmit={form.onSubmit(onAdd)}>
        <Stack>
          <TextInput
            data-autofocus
            type="email"
            autoComplete="off"
            label={t("settings.email")}
            maxLength={254}
            {...form.getInputProps("email")}
          />
          <TextInput label={t("settings.memberName")} maxLength={100} {...form.getInputProps("name")} />
          <Select
            label={t("settings.keyRole")}
            allowDeselect={false}
            data={roles.map((r) => ({ value: r, label: t(`role.${r}`) }))}
            {...form.getInputProps("role")}
          />
          <PasswordInput
            label={t("settings.memberPassword")}
            description={t("settings.memberPasswordHint")}
            autoComplete="new-password"
            maxLength={256}
            {...form.getInputProps("password")}
          />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy}>
              {t("settings.addMember")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

export function MembersTab() {
  const { t } = useTranslation();
  const f = useFormat();
  const me = useMe();
  const { act, busy } = useAct();
  const query = useQuery(membersQuery);
  const [adding, setAdding] = useState(false);
  const mayManage = allows(me.role, "admin");
  const roles = ROLES.filter((r) => r !== "owner" || me.role === "owner");

  const add = async (member: NewMember) => {
    const done = await act(
      () => addMember(member.email.trim(), member.name.trim(), member.role, member.password),
      TOUCHES,
      t("settings.memberAdded", { email: member.email.trim() }),
    );
    if (done) setAdding(false);
  };
  const remove = (m: Member) =>
    ask({
      title: t("settings.removeTitle", { name: m.displayName || m.email }),
      text: t("settings.removeText"),
      confirm: t("settings.remove"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => removeMember(m.id), TOUCHES, t("settings.removed")),
    });
  const mayTouch = (m: Member) => mayManage && m.id !== me.user.id && (m.role !== "owner" || me.role === "owner");
  const columns: Column<Member>[] = [
    {
      key: "name",
      header: t("common.name"),
      sort: (m) => m.displayName || m.email,
      render: (m) => (
        <div>
          <Group gap={8}>
            <Text size="sm" fw={550}>
              {m.displayName || m.email}
            </Text>
            {m.id === me.user.id && <Badge color="gray">{t("settings.you")}</Badge>}
            {m.disabled && <Badge color="red">{t("settings.disabled")}</Badge>}
          </Group>
          <Text size="xs" c="dimmed">
            {m.email}
          </Text>
        </div>
      ),
    },
    {
      key: "role",
      header: t("settings.keyRole"),
      sort: (m) => m.role,
      render: (m) =>
        mayTouch(m) ? (
          <Select
            size="xs"
            w={130}
            aria-label={t("settings.keyRole")}
            allowDeselect={false}
            disabled={busy}
            value={m.role}
            data={roles.map((r) => ({ value: r, label: t(`role.${r}`) }))}
            onChange={(value) => {
              const role = roles.find((r) => r === value);
              if (role && role !== m.role) void act(() => changeRole(m.id, role), TOUCHES, t("settings.roleChanged"));
            }}
          />
        ) : (
          <Badge>{t(`role.${m.role}`)}</Badge>
        ),
    },
    {
      key: "joined",
      header: t("settings.joined"),
      sort: (m) => m.joinedAt.getTime(),
      render: (m) => f.dateTime(m.joinedAt),
    },
    {
      key: "remove",
      header: "",
      align: "right",
      render: (m) =>
        mayTouch(m) ? (
          <Button size="compact-xs" variant="default" disabled={busy} onClick={() => remove(m)}>
            {t("settings.remove")}
          </Button>
        ) : null,
    },
  ];
  return (
    <Panel
      flush
      title={t("settings.tabs.members")}
      actions={
        mayManage && (
          <Button size="xs" leftSection={<IconPlus size={14} />} onClick={() => setAdding(true)}>
            {t("settings.addMember")}
          </Button>
        )
      }
    >
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={4} />}
        isEmpty={(list) => list.length === 0}
        empty={<Empty title={t("settings.membersEmpty")} />}
      >
        {(list) => <DataTable label={t("settings.tabs.members")} rows={list} columns={columns} rowKey={(m) => m.id} />}
      </Gate>
      {adding && <AddMember roles={roles} busy={busy} onClose={() => setAdding(false)} onAdd={(m) => void add(m)} />}
    </Panel>
  );
}
