package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"plimsoll.dev/agent/serve/contract/expander"
	"plimsoll.dev/agent/serve/contract/externalscaler"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Config of a Server.
type Config struct {
	Address  string // host:port; required
	Expander bool   // answer Cluster Autoscaler
	KEDA     bool   // answer KEDA
	TLS      TLS
	// MaxReplicas is the largest count that KEDA is told; 0: no limit.
	MaxReplicas int64
}

// TLS names PEM files. They are read anew for each connection: certificates are renewed under a running agent. Both empty: none.
type TLS struct {
	CertFile, KeyFile string
	ClientCAFile      string // empty: clients need no certificate
}

// Bounds of the server. A request for options carries every pending pod once for each option.
const (
	maxRequestBytes = 64 << 20
	maxAtOnce       = 2 // requests for options
	callDeadline    = 4 * time.Second
	stopGrace       = 2 * time.Second
)

// Server is the gRPC server for autoscalers.
type Server struct {
	grpc     *grpc.Server
	listener net.Listener
	done     chan struct{}
}

// Serve listens and answers until Stop. The gate is asked for each answer.
func Serve(ctx context.Context, cfg Config, board *Board, gate Gate, log *slog.Logger) (*Server, error) {
	if !cfg.Expander && !cfg.KEDA {
		return nil, errors.New("nothing to serve")
	}
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(guard(log)), grpc.ChainStreamInterceptor(guardStream(log)),
	}
	if cfg.TLS.CertFile != "" {
		if _, err := cfg.TLS.load(); err != nil { // said at the start, not to the first client
			return nil, err
		}
		opts = append(opts, grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return cfg.TLS.load() }})))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for autoscalers: %w", err)
	}
	s := &Server{grpc: grpc.NewServer(opts...), listener: listener, done: make(chan struct{})}
	state := health.NewServer()
	healthv1.RegisterHealthServer(s.grpc, state)
	if cfg.Expander {
		expander.RegisterExpanderServer(s.grpc, &expanderServer{board: board, gate: gate, busy: make(chan struct{}, maxAtOnce), log: log})
		state.SetServingStatus(expander.Expander_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	}
	if cfg.KEDA {
		externalscaler.RegisterExternalScalerServer(s.grpc, &scalerServer{board: board, gate: gate, limit: cfg.MaxReplicas, streams: make(chan struct{}, maxStreams)})
		state.SetServingStatus(externalscaler.ExternalScaler_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	}
	go func() {
		defer close(s.done)
		if err := s.grpc.Serve(listener); err != nil {
			log.Error("the server for autoscalers ended", "error", err)
		}
	}()
	log.Info("autoscalers are served", "address", listener.Addr().String(), "expander", cfg.Expander, "keda", cfg.KEDA, "tls", cfg.TLS.CertFile != "")
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop ends the server: calls may finish for a moment, streams are ended.
func (s *Server) Stop() {
	t := time.AfterFunc(stopGrace, s.grpc.Stop)
	defer t.Stop()
	s.grpc.GracefulStop()
	<-s.done
}

// guard bounds each call in time, and turns a panic into an error: one bad request does not end the agent.
func guard(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
		ctx, cancel := context.WithTimeout(ctx, callDeadline)
		defer cancel()
		defer caught(info.FullMethod, log, &err)
		return next(ctx, req)
	}
}

func guardStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer caught(info.FullMethod, log, &err)
		return next(srv, stream)
	}
}

func caught(method string, log *slog.Logger, err *error) {
	if p := recover(); p != nil {
		log.Error("a call from an autoscaler failed", "method", method, "panic", fmt.Sprint(p))
		*err = status.Error(codes.Internal, "the agent could not answer")
	}
}

func (t TLS) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate for autoscalers: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
	if t.ClientCAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("certificates of clients: %w", err)
	}
	cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("certificates of clients: the file holds none")
	}
	return cfg, nil
}
