module plimsoll.dev/services/wire

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/google/go-cmp v0.7.0
	github.com/klauspost/compress v1.20.4
	google.golang.org/protobuf v1.36.12
	pgregory.net/rapid v1.3.0
)

tool (
	connectrpc.com/connect/cmd/protoc-gen-connect-go
	google.golang.org/protobuf/cmd/protoc-gen-go
)
