package uplink

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
)

const (
	readMaxBytes = 8 << 20 // of one message from the service: plans are small
	callTimeout  = 20 * time.Second
)

// clients are the two ways to the same service: over HTTP/2 for the stream, over HTTP/1.1 for what proxies leave of it.
type clients struct {
	h2, h1 agentv1connect.AgentServiceClient
	close  func()
}

func newClients(endpoint string) (clients, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return clients{}, fmt.Errorf("endpoint %q is not an http or https URL", endpoint)
	}
	dial := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	base := func() *http.Transport {
		return &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		}
	}
	t2, t1 := base(), base()
	t2.Protocols, t1.Protocols = new(http.Protocols), new(http.Protocols)
	if u.Scheme == "http" {
		t2.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t2.Protocols.SetHTTP2(true)
	}
	t1.Protocols.SetHTTP1(true)
	// A stream can be silent for minutes; pings tell a dead peer from a quiet one.
	t2.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}
	opts := []connect.ClientOption{
		connect.WithAcceptCompression("zstd", newDecompressor, newCompressor),
		connect.WithSendCompression("zstd"), connect.WithCompressMinBytes(512), connect.WithReadMaxBytes(readMaxBytes),
	}
	return clients{
		h2:    agentv1connect.NewAgentServiceClient(&http.Client{Transport: t2}, endpoint, opts...),
		h1:    agentv1connect.NewAgentServiceClient(&http.Client{Transport: t1}, endpoint, opts...),
		close: func() { t2.CloseIdleConnections(); t1.CloseIdleConnections() },
	}, nil
}

type decompressor struct{ *zstd.Decoder }

func (d decompressor) Close() error            { return nil }
func (d decompressor) Reset(r io.Reader) error { return d.Decoder.Reset(r) }
func newDecompressor() connect.Decompressor {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(readMaxBytes*2))
	if err != nil {
		panic(err) // the options are constants
	}
	return decompressor{d}
}

func newCompressor() connect.Compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

func authorize(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }

func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}
