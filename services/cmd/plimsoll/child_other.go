//go:build !linux

package main

import "syscall"

func withParent(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }
