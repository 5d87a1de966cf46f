//go:build !linux

package main

// packRSSUnit: Darwin counts resident memory in bytes.
const packRSSUnit = 1
