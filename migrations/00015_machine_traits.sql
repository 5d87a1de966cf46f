-- +goose Up
-- What clouds tell of a machine beyond its size. NULL: not told, which is not none. local_disk_gb, which cannot tell the two apart,
-- stays for readers that are older than this.
ALTER TABLE machine_type
  ADD COLUMN local_disk_gib bigint CONSTRAINT machine_type_disk CHECK (local_disk_gib >= 0),
  ADD COLUMN fabric_gbps bigint CONSTRAINT machine_type_fabric CHECK (fabric_gbps > 0),
  ADD COLUMN address_pods bigint CONSTRAINT machine_type_pods CHECK (address_pods > 0); -- pods that its network interfaces have addresses for

-- +goose Down
ALTER TABLE machine_type DROP COLUMN local_disk_gib, DROP COLUMN fabric_gbps, DROP COLUMN address_pods;
