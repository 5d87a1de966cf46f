// Mantine's looks with the router's typed paths and search.
import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, Ref } from "react";

type Html<P> = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof P> & { ref?: Ref<HTMLAnchorElement> };

export const TextLink = createLink((props: AnchorProps & Html<AnchorProps>) => <Anchor {...props} />);

export const LinkButton = createLink((props: ButtonProps & Html<ButtonProps>) => <Button component="a" {...props} />);
