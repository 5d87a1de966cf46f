module plimsoll.dev/scripts/gen-bands

go 1.26.0
