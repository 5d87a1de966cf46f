//go:build !linux

package devdb

import "os/exec"

func startWithParent(cmd *exec.Cmd) error { return cmd.Start() }
