package main

// packRSSUnit: Linux counts resident memory in KiB.
const packRSSUnit = 1024
