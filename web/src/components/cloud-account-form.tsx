import { Button, Group, Modal, PasswordInput, SegmentedControl, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useTranslation } from "react-i18next";
import type { Access, CloudAccountInput } from "../api/cloud-accounts";
import { CLOUDS, type Cloud, cloudName } from "../lib/cloud";

const ROLE = /^arn:aws(-cn|-us-gov)?:iam::\d{12}:role\/[\w+=,.@/-]{1,512}$/;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;
const PROJECT = /^[a-z][a-z\d-]{4,28}[a-z\d]$/;
const REGION = /^[a-z\d-]{3,40}$/;
const MOST_REGIONS = 40;

/** Reads "us-east-1, eu-west-1"; null when it is not 1 to 40 names of regions, each once. */
export function readRegions(text: string): string[] | null {
  const names = text.split(/[,，\s]+/).filter(Boolean);
  const good =
    names.length >= 1 &&
    names.length <= MOST_REGIONS &&
    names.every((n) => REGION.test(n)) &&
    new Set(names).size === names.length;
  return good ? names : null;
}

const EMPTY = {
  name: "",
  cloud: "aws" as Cloud,
  regions: "",
  roleArn: "",
  directoryId: "",
  clientId: "",
  clientSecret: "",
  subscriptionId: "",
  projectId: "",
  key: "",
  serviceAccount: "",
};
type Values = typeof EMPTY;

function accessOf(v: Values): Access {
  switch (v.cloud) {
    case "aws":
      return { cloud: "aws", roleArn: v.roleArn.trim() };
    case "azure":
      return {
        cloud: "azure",
        directoryId: v.directoryId.trim(),
        clientId: v.clientId.trim(),
        clientSecret: v.clientSecret,
        subscriptionId: v.subscriptionId.trim(),
      };
    case "gcp":
      return {
        cloud: "gcp",
        projectId: v.projectId.trim(),
        key: v.key.trim(),
        serviceAccount: v.serviceAccount.trim(),
      };
  }
}

/** Asks for what each cloud needs; the service checks it again. */
export function CloudAccountForm({
  busy,
  onClose,
  onCreate,
}: {
  busy: boolean;
  onClose: () => void;
  onCreate: (input: CloudAccountInput) => void;
}) {
  const { t } = useTranslation();
  const of = (cloud: Cloud, check: (text: string) => boolean, words: string) => (text: string, v: Values) =>
    v.cloud !== cloud || check(text.trim()) ? null : words;
  const uuid = of("azure", (text) => UUID.test(text), t("market.accounts.uuidBad"));
  const form = useForm<Values>({
    initialValues: EMPTY,
    validate: {
      name: (v) => (v.trim() ? null : t("market.accounts.nameBad")),
      regions: (v) => (readRegions(v) ? null : t("market.accounts.regionsBad")),
      roleArn: of("aws", (text) => ROLE.test(text), t("market.accounts.roleArnBad")),
      directoryId: uuid,
      clientId: uuid,
      subscriptionId: uuid,
      projectId: of("gcp", (text) => PROJECT.test(text), t("market.accounts.projectBad")),
      key: (text, v) =>
        v.cloud !== "gcp" || (text.trim() === "") !== (v.serviceAccount.trim() === "")
          ? null
          : t("market.accounts.keyBad"),
    },
  });
  const submit = form.onSubmit((v) => {
    const regions = readRegions(v.regions);
    if (regions) onCreate({ name: v.name.trim(), regions, access: accessOf(v) });
  });
  const { cloud } = form.values;
  return (
    <Modal opened onClose={onClose} title={t("market.accounts.add")} size="lg">
      <form onSubmit={submit} autoComplete="off">
        <Stack>
          <SegmentedControl
            aria-label={t("market.cloud")}
            value={cloud}
            onChange={(value) => form.setFieldValue("cloud", CLOUDS.find((c) => c === value) ?? "aws")}
            data={CLOUDS.map((c) => ({ value: c, label: cloudName(c) }))}
          />
          <TextInput data-autofocus label={t("common.name")} maxLength={100} {...form.getInputProps("name")} />
          <TextInput
            label={t("market.accounts.regions")}
            description={t("market.accounts.regionsHint")}
            maxLength={2000}
            {...form.getInputProps("regions")}
          />
          {cloud === "aws" && (
            <TextInput
              label={t("market.accounts.roleArn")}
              placeholder="arn:aws:iam::123456789012:role/plimsoll"
              maxLength={600}
              {...form.getInputProps("roleArn")}
            />
          )}
          {cloud === "azure" && (
            <>
              <TextInput
                label={t("market.accounts.directoryId")}
                maxLength={36}
                {...form.getInputProps("directoryId")}
              />
              <TextInput label={t("market.accounts.clientId")} maxLength={36} {...form.getInputProps("clientId")} />
              <PasswordInput
                label={t("market.accounts.clientSecret")}
                description={t("market.accounts.clientSecretHint")}
                maxLength={512}
                autoComplete="new-password"
                {...form.getInputProps("clientSecret")}
              />
              <TextInput
                label={t("market.accounts.subscriptionId")}
                maxLength={36}
                {...form.getInputProps("subscriptionId")}
              />
            </>
          )}
          {cloud === "gcp" && (
            <>
              <TextInput label={t("market.accounts.projectId")} maxLength={30} {...form.getInputProps("projectId")} />
              <Textarea
                label={t("market.accounts.key")}
                description={t("market.accounts.keyHint")}
                rows={5}
                maxLength={16_384}
                spellCheck={false}
                styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12.5 } }}
                {...form.getInputProps("key")}
              />
              <TextInput
                label={t("market.accounts.serviceAccount")}
                placeholder="reader@project.iam.gserviceaccount.com"
                maxLength={200}
                {...form.getInputProps("serviceAccount")}
              />
            </>
          )}
          <Group justify="space-between">
            <Text size="xs" c="dimmed">
              {cloud === "aws" ? "" : t("market.accounts.secretKept")}
            </Text>
            <Group gap="sm">
              <Button variant="default" onClick={onClose}>
                {t("common.cancel")}
              </Button>
              <Button type="submit" loading={busy}>
                {t("common.create")}
              </Button>
            </Group>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
