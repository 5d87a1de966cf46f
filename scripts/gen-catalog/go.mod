module plimsoll.dev/scripts/gen-catalog

go 1.26.0
