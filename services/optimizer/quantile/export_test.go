package quantile

import (
	"encoding/binary"
	"hash/crc32"
)

// Resum gives kept bytes a checksum that matches.
func Resum(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
	return b
}
