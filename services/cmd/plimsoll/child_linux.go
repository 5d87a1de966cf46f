package main

import "syscall"

// withParent makes the kernel end a child when this process dies by kill -9, so that no orphan keeps the agent's state directory. The
// signal follows the thread that forked, which the caller must keep.
func withParent(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	a.Pdeathsig = syscall.SIGTERM
	return a
}
