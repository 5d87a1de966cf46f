// Command autoscalers asks an agent what Cluster Autoscaler and KEDA ask, for the end-to-end suite: as a process of its own, with
// grpc-go, as both do. For KEDA it uses KEDA's own generated client. Cluster Autoscaler's module is not for others to import, so its
// question is written by the field numbers of its public contract, in the form of Kubernetes 1.34 and in that of 1.35, without any
// code that the agent shares.
//
//	autoscalers expander  -address host:port -ca file [-form old|new] group=labels... prints the groups that came back
//	autoscalers keda      -address host:port -ca file -namespace ns -name name        prints what KEDA would see
//	autoscalers keda-push -address host:port -ca file -namespace ns -name name -count n
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expanderTimeout is what Cluster Autoscaler waits for an answer.
const expanderTimeout = 5 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "autoscalers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to ask: expander, keda or keda-push")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	address := flags.String("address", "", "of the agent")
	ca := flags.String("ca", "", "certificate `file` that the agent's must come from")
	form := flags.String("form", "new", "of the expander's question: old (to Kubernetes 1.34) or new")
	namespace := flags.String("namespace", "", "of the ScaledObject")
	name := flags.String("name", "", "of the ScaledObject")
	count := flags.Int("count", 1, "pushes to wait for")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("the file holds no certificate")
	}
	conn, err := grpc.NewClient(*address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})))
	if err != nil {
		return err
	}
	defer conn.Close()
	ref := &pb.ScaledObjectRef{Namespace: *namespace, Name: *name, ScalerMetadata: map[string]string{"scalerAddress": *address}}
	switch args[0] {
	case "expander":
		return expander(conn, *form == "old", flags.Args())
	case "keda":
		return keda(conn, ref)
	case "keda-push":
		return push(conn, ref, *count)
	}
	return fmt.Errorf("unknown question %q", args[0])
}

// raw passes messages through as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}
func (raw) Name() string { return "proto" }

func field(b []byte, n protowire.Number, inside []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), inside)
}

// expander asks which of the groups to grow by one node each for one pod. A group is written "name=label=value,label=value".
func expander(conn *grpc.ClientConn, old bool, groups []string) error {
	pod, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "chat-0"}}).Marshal()
	if err != nil {
		return err
	}
	podField, nodeField := protowire.Number(5), protowire.Number(3)
	if old {
		podField, nodeField = 4, 2
	}
	var req []byte
	for _, g := range groups {
		id, labels, _ := strings.Cut(g, "=")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "template-" + id, Labels: map[string]string{}}}
		for _, l := range strings.Split(labels, ",") {
			k, v, _ := strings.Cut(l, "=")
			node.Labels[k] = v
		}
		nodeBytes, err := node.Marshal()
		if err != nil {
			return err
		}
		option := field(nil, 1, []byte(id))
		option = protowire.AppendVarint(protowire.AppendTag(option, 2, protowire.VarintType), 1)
		option = field(field(option, 3, []byte("one node")), podField, pod)
		req = field(field(req, 1, option), nodeField, field(field(nil, 1, []byte(id)), 2, nodeBytes))
	}
	ctx, cancel := context.WithTimeout(context.Background(), expanderTimeout)
	defer cancel()
	var answer []byte
	begun := time.Now()
	if err := conn.Invoke(ctx, "/grpcplugin.Expander/BestOptions", &req, &answer, grpc.ForceCodec(raw{})); err != nil {
		return err
	}
	var ids []string
	for len(answer) > 0 {
		n, _, size := protowire.ConsumeTag(answer)
		option, more := protowire.ConsumeBytes(answer[max(size, 0):])
		if size < 0 || more < 0 || n != 1 {
			return fmt.Errorf("the answer is no BestOptionsResponse: field %d", n)
		}
		answer = answer[size+more:]
		id, n2 := "", 0
		for len(option) > 0 && n2 >= 0 {
			num, typ, s := protowire.ConsumeTag(option)
			if n2 = s; s < 0 {
				break
			}
			if num == 1 {
				b, _ := protowire.ConsumeBytes(option[s:])
				id = string(b)
			}
			if n2 = protowire.ConsumeFieldValue(num, typ, option[s:]); n2 >= 0 {
				option = option[s+n2:]
			}
		}
		ids = append(ids, id)
	}
	fmt.Printf("options %s in %s\n", strings.Join(ids, " "), time.Since(begun).Round(time.Millisecond))
	return nil
}

// keda asks in the order in which KEDA does.
func keda(conn *grpc.ClientConn, ref *pb.ScaledObjectRef) error {
	client := pb.NewExternalScalerClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), expanderTimeout)
	defer cancel()
	spec, err := client.GetMetricSpec(ctx, ref)
	if err != nil {
		return err
	}
	m := spec.MetricSpecs[0]
	got, err := client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: m.MetricName})
	if err != nil {
		fmt.Printf("metric %s target %v refused %s\n", m.MetricName, m.TargetSizeFloat, status.Code(err))
		return nil
	}
	active, err := client.IsActive(ctx, ref)
	if err != nil {
		return err
	}
	fmt.Printf("metric %s target %v value %v active %v\n", m.MetricName, m.TargetSizeFloat, got.MetricValues[0].MetricValueFloat, active.Result)
	return nil
}

// push waits for so many messages of the stream.
func push(conn *grpc.ClientConn, ref *pb.ScaledObjectRef, count int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := pb.NewExternalScalerClient(conn).StreamIsActive(ctx, ref)
	if err != nil {
		return err
	}
	for range count {
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		fmt.Println("active", got.Result)
	}
	return nil
}
