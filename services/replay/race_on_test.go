//go:build race

package replay

const raceEnabled = true // the detector makes everything several times slower
