# syntax=docker/dockerfile:1
# The in-cluster agent. Build from the repository root:
#   docker build -f deploy/images/agent.Dockerfile -t plimsoll/plimsoll-agent:dev .
#   docker build -f deploy/images/agent.Dockerfile --target dcgm -t plimsoll/plimsoll-agent:dev-dcgm .
#
# CI builds the binaries and checks the charts, but no image: that needs a
# container engine, which CI does not have. Build once by hand before a release.
ARG GO_IMAGE=golang:1.26-bookworm

FROM ${GO_IMAGE} AS source
WORKDIR /src
ENV GOWORK=off GOFLAGS=-buildvcs=false
COPY services/wire/go.mod services/wire/go.sum* services/wire/
COPY agent/go.mod agent/go.sum agent/
RUN cd agent && go mod download
COPY services/wire services/wire
COPY agent agent

FROM source AS build
RUN cd agent && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/plimsoll-agent ./cmd/plimsoll-agent
RUN mkdir -p /out/state && chown 65532:65532 /out/state

# DCGM through cgo: libdcgm.so is opened when it is first used, so lazy binding
# is needed, and so is a base with a C library.
FROM source AS build-dcgm
RUN cd agent && CGO_ENABLED=1 go build -trimpath -tags dcgm -ldflags="-s -w -extldflags=-Wl,-z,lazy" -o /out/plimsoll-agent ./cmd/plimsoll-agent

FROM debian:bookworm-slim AS dcgm
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build-dcgm /out/plimsoll-agent /usr/local/bin/plimsoll-agent
# libdcgm.so comes from the host (hostengine) or from a layer of yours: its
# licence does not allow us to ship it.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/plimsoll-agent"]

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/plimsoll-agent /plimsoll-agent
COPY --from=build --chown=65532:65532 /out/state /var/lib/plimsoll
USER 65532:65532
ENTRYPOINT ["/plimsoll-agent"]
