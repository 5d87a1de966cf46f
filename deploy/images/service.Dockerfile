# syntax=docker/dockerfile:1
# The service with its dashboard. Build from the repository root:
#   docker build -f deploy/images/service.Dockerfile -t plimsoll/plimsoll:dev .
#
# CI builds the binary and the dashboard, but no image: that needs a container
# engine, which CI does not have. Build once by hand before a release.
ARG GO_IMAGE=golang:1.26-bookworm
ARG NODE_IMAGE=node:20-bookworm-slim

FROM ${NODE_IMAGE} AS web
WORKDIR /src/web
COPY web/package.json web/package-lock.json ./
RUN npm ci
COPY web .
RUN npm run build

FROM ${GO_IMAGE} AS build
WORKDIR /src
ENV GOWORK=off GOFLAGS=-buildvcs=false
COPY migrations/go.mod migrations/
COPY services/wire/go.mod services/wire/go.sum* services/wire/
COPY services/go.mod services/go.sum services/
RUN cd services && go mod download
COPY migrations migrations
COPY services services
COPY --from=web /src/web/dist services/cmd/plimsoll/dashboard
RUN cd services && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/plimsoll ./cmd/plimsoll

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /usr/share/zoneinfo /usr/share/zoneinfo
COPY --from=build /out/plimsoll /plimsoll
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/plimsoll"]
