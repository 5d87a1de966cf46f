import { Drawer, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Asked, explainQuery } from "../api/catalogue";
import type { Purchase } from "../api/clusters";
import { AskedPicker, PriceExplanation } from "../components/price-explain";
import { BlockSkeleton, Gate } from "../components/state";
import { CLOUDS, cloudName } from "../lib/cloud";

export type Offering = Omit<Asked, "purchase" | "quantity">;

/** Reads "cloud/region/type" or "cloud/region/type/zone"; null when it is neither. */
export function readOffering(text: string | undefined): Offering | null {
  const [cloud, region, instanceType, zone, ...rest] = (text ?? "").split("/");
  const known = CLOUDS.find((c) => c === cloud);
  if (!known || !region || !instanceType || rest.length > 0) return null;
  return { cloud: known, region, instanceType, ...(zone ? { zone } : {}) };
}

/** Explains the price of the offering that the URL names. */
export function PriceDrawer({
  open,
  purchase: first,
  onClose,
  about,
}: {
  open: string | undefined;
  purchase: Purchase;
  onClose: () => void;
  /** What else is said of the offering, under its price. */
  about?: (offering: Offering) => ReactNode;
}) {
  const { t } = useTranslation();
  const offering = readOffering(open);
  return (
    <Drawer
      opened={offering !== null}
      onClose={onClose}
      position="right"
      size={560}
      title={offering ? t("market.explainTitle", { type: offering.instanceType }) : ""}
      styles={{ title: { fontWeight: 650, fontSize: "1.05rem" } }}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      {offering && (
        <Stack gap="xl">
          <Explained key={open} offering={offering} first={first} />
          {about?.(offering)}
        </Stack>
      )}
    </Drawer>
  );
}

function Explained({ offering, first }: { offering: Offering; first: Purchase }) {
  const [purchase, setPurchase] = useState(first);
  const [quantity, setQuantity] = useState(1);
  const query = useQuery(explainQuery({ ...offering, purchase, quantity }));
  return (
    <Stack gap="lg">
      <div>{[cloudName(offering.cloud), offering.region, offering.zone].filter(Boolean).join(" · ")}</div>
      <AskedPicker
        purchase={purchase}
        quantity={quantity}
        onChange={(part) => {
          if (part.purchase) setPurchase(part.purchase);
          if (part.quantity) setQuantity(part.quantity);
        }}
      />
      <Gate query={query} skeleton={<BlockSkeleton height={360} />}>
        {(price) => <PriceExplanation price={price} />}
      </Gate>
    </Stack>
  );
}
