package serve

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/agent/serve/contract/expander"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// price is a row of a price list: "region/zone/type/purchase".
func price(where string, nano int64) *agentv1.OfferingPrice {
	p := strings.Split(where, "/")
	return &agentv1.OfferingPrice{Region: p[0], Zone: p[1], InstanceType: p[2], Purchase: p[3], HourNano: nano}
}

// group is a node group with the node it would make and the pods it would run.
type group struct {
	id     string
	nodes  int32
	labels map[string]string
	pods   int
	gpu    string
}

func zone(z, instanceType string, more ...string) map[string]string {
	l := map[string]string{corev1.LabelTopologyRegion: "r1", corev1.LabelTopologyZone: z, corev1.LabelInstanceTypeStable: instanceType}
	for i := 0; i+1 < len(more); i += 2 {
		l[more[i]] = more[i+1]
	}
	return l
}

func request(t testing.TB, modern bool, groups ...group) *expander.BestOptionsRequest {
	t.Helper()
	req := &expander.BestOptionsRequest{NodeMap: map[string][]byte{}, NodeBytesMap: map[string][]byte{}}
	for _, g := range groups {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "template-" + g.id, Labels: g.labels}}
		raw, err := node.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		o := &expander.Option{NodeGroupId: g.id, NodeCount: g.nodes, Debug: "debug " + g.id}
		for range g.pods {
			pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")}}}}}}
			if g.gpu != "" {
				pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse(g.gpu)
			}
			b, err := pod.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if modern {
				o.PodBytes = append(o.PodBytes, b)
			} else {
				o.Pod = append(o.Pod, b)
			}
		}
		req.Options = append(req.Options, o)
		if modern {
			req.NodeBytesMap[g.id] = raw
		} else {
			req.NodeMap[g.id] = raw
		}
	}
	return req
}

func TestTheCheapestWayToRunThePodsIsChosen(t *testing.T) {
	t.Parallel()
	const dollar = 1_000_000_000
	spotLabel := []string{"eks.amazonaws.com/capacityType", "SPOT"}
	cases := []struct {
		name   string
		prices []*agentv1.OfferingPrice
		groups []group
		want   string
	}{
		{"no prices leave every option", nil, []group{{id: "a", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "b", nodes: 1, labels: zone("z2", "m"), pods: 1}}, "a b"},
		{"the cheaper zone wins", []*agentv1.OfferingPrice{price("r1/z1/m/on_demand", 2*dollar), price("r1/z2/m/on_demand", dollar)},
			[]group{{id: "a", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "b", nodes: 1, labels: zone("z2", "m"), pods: 1}}, "b"},
		{"two small nodes may cost less than one large", []*agentv1.OfferingPrice{price("r1//small/on_demand", dollar), price("r1//large/on_demand", 3*dollar)},
			[]group{{id: "large", nodes: 1, labels: zone("z1", "large"), pods: 4}, {id: "small", nodes: 2, labels: zone("z1", "small"), pods: 4}}, "small"},
		{"a price per pod served counts, not a price per option", []*agentv1.OfferingPrice{price("r1//small/on_demand", dollar), price("r1//large/on_demand", 3*dollar)},
			[]group{{id: "large", nodes: 1, labels: zone("z1", "large"), pods: 8}, {id: "small", nodes: 1, labels: zone("z1", "small"), pods: 2}}, "large"},
		{"Spot is another offering than on demand", []*agentv1.OfferingPrice{price("r1//m/on_demand", 2*dollar), price("r1//m/spot", dollar)},
			[]group{{id: "od", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "spot", nodes: 1, labels: zone("z1", "m", spotLabel...), pods: 1}}, "spot"},
		{"Spot that is soon gone is dearer than it looks", []*agentv1.OfferingPrice{price("r1//m/on_demand", dollar), func() *agentv1.OfferingPrice {
			p := price("r1//m/spot", dollar*9/10)
			p.HazardPerHour = 0.5
			return p
		}()}, []group{{id: "od", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "spot", nodes: 1, labels: zone("z1", "m", spotLabel...), pods: 1}}, "od"},
		{"what is not to be had is dear", []*agentv1.OfferingPrice{price("r1//m/on_demand", dollar), func() *agentv1.OfferingPrice {
			p := price("r1//n/on_demand", dollar/2)
			p.StockOut = 0.8
			return p
		}()}, []group{{id: "m", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "n", nodes: 1, labels: zone("z1", "n"), pods: 1}}, "m"},
		{"a pool seen empty a moment ago is not asked", []*agentv1.OfferingPrice{price("r1//m/on_demand", 9*dollar), func() *agentv1.OfferingPrice {
			p := price("r1//n/on_demand", dollar)
			p.StockedOutUntilMs = 1_060_000
			return p
		}()}, []group{{id: "m", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "n", nodes: 1, labels: zone("z1", "n"), pods: 1}}, "m"},
		{"where only empty pools have a price, the unknown ones are left", []*agentv1.OfferingPrice{func() *agentv1.OfferingPrice {
			p := price("r1//n/on_demand", dollar)
			p.StockedOutUntilMs = 1_060_000
			return p
		}()}, []group{{id: "m", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "n", nodes: 1, labels: zone("z1", "n"), pods: 1}}, "m"},
		{"where all are empty, Cluster Autoscaler decides", []*agentv1.OfferingPrice{func() *agentv1.OfferingPrice {
			p := price("r1//n/on_demand", dollar)
			p.StockOut = 1
			return p
		}()}, []group{{id: "n", nodes: 1, labels: zone("z1", "n"), pods: 1}}, "n"},
		{"as good as each other within a hundredth", []*agentv1.OfferingPrice{price("r1/z1/m/on_demand", 1000), price("r1/z2/m/on_demand", 1009), price("r1/z3/m/on_demand", 1011)},
			[]group{{id: "c", nodes: 1, labels: zone("z3", "m"), pods: 1}, {id: "b", nodes: 1, labels: zone("z2", "m"), pods: 1}, {id: "a", nodes: 1, labels: zone("z1", "m"), pods: 1}}, "a b"},
		{"zero, negative and impossible numbers are unknown", []*agentv1.OfferingPrice{price("r1//a/on_demand", 0), price("r1//b/on_demand", -5), func() *agentv1.OfferingPrice {
			p := price("r1//c/on_demand", 1)
			p.StockOut = math.NaN()
			return p
		}(), func() *agentv1.OfferingPrice { p := price("r1//d/on_demand", 1); p.HazardPerHour = 7; return p }(), price("r1//e/on_demand", 99*dollar)},
			[]group{{id: "a", nodes: 1, labels: zone("z1", "a"), pods: 1}, {id: "b", nodes: 1, labels: zone("z1", "b"), pods: 1}, {id: "c", nodes: 1, labels: zone("z1", "c"), pods: 1},
				{id: "d", nodes: 1, labels: zone("z1", "d"), pods: 1}, {id: "e", nodes: 1, labels: zone("z1", "e"), pods: 1}}, "e"},
		{"no GPU node for pods that need none", []*agentv1.OfferingPrice{price("r1//gpu/on_demand", 5*dollar), price("r1//cpu/on_demand", dollar)},
			[]group{{id: "gpu", nodes: 1, labels: zone("z1", "gpu"), pods: 3}, {id: "cpu", nodes: 1, labels: zone("z1", "cpu"), pods: 3}}, "cpu"},
		{"GPU pods are worth a GPU node", []*agentv1.OfferingPrice{price("r1//gpu/on_demand", 5*dollar), price("r1//cpu/on_demand", dollar)},
			[]group{{id: "gpu", nodes: 1, labels: zone("z1", "gpu"), pods: 4, gpu: "1"}, {id: "cpu", nodes: 1, labels: zone("z1", "cpu"), pods: 4}}, "gpu"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, modern := range []bool{false, true} {
				s := newScene()
				if c.prices != nil {
					st := s.standing(1, 300)
					st.Offerings = c.prices
					if err := s.Put(st); err != nil {
						t.Fatal(err)
					}
				}
				client := expander.NewExpanderClient(start(t, Config{Expander: true}, s.Board, open, insecure.NewCredentials()))
				got, err := client.BestOptions(t.Context(), request(t, modern, c.groups...))
				if err != nil {
					t.Fatal(err)
				}
				if ids := strings.Join(names(got.GetOptions()), " "); ids != c.want {
					t.Errorf("modern %v: %s, want %s", modern, ids, c.want)
				}
			}
		})
	}
}

func TestAnAutoscalerIsNeverLeftWithoutAnOption(t *testing.T) {
	t.Parallel()
	s := newScene()
	st := s.standing(1, 300)
	st.Offerings = []*agentv1.OfferingPrice{price("r1//m/on_demand", 1), price("r1//n/on_demand", 2)}
	if err := s.Put(st); err != nil {
		t.Fatal(err)
	}
	groups := []group{{id: "m", nodes: 1, labels: zone("z1", "m"), pods: 1}, {id: "n", nodes: 1, labels: zone("z1", "n"), pods: 1}}
	closed := func() (bool, string) { return false, "the agent is in observe mode" }
	client := expander.NewExpanderClient(start(t, Config{Expander: true}, s.Board, closed, insecure.NewCredentials()))
	got, err := client.BestOptions(t.Context(), request(t, true, groups...))
	if err != nil || len(got.GetOptions()) != 2 {
		t.Error("in observe mode:", got, err)
	}
	client = expander.NewExpanderClient(start(t, Config{Expander: true}, s.Board, open, insecure.NewCredentials()))
	broken := request(t, true, groups...)
	broken.NodeBytesMap["m"], broken.Options[1].PodBytes = []byte("no node"), [][]byte{[]byte("no pod")}
	if got, err = client.BestOptions(t.Context(), broken); err != nil || strings.Join(names(got.GetOptions()), " ") != "n" {
		t.Error("with a node and a pod that cannot be read:", got, err)
	}
	if got, err = client.BestOptions(t.Context(), &expander.BestOptionsRequest{}); err != nil || len(got.GetOptions()) != 0 {
		t.Error("without options:", got, err)
	}
	s.frozen.Store(true)
	if got, err = client.BestOptions(t.Context(), request(t, true, groups...)); err != nil || len(got.GetOptions()) != 2 {
		t.Error("while frozen:", got, err)
	}
	s.frozen.Store(false)
	s.now.Add(300_000)
	if got, err = client.BestOptions(t.Context(), request(t, true, groups...)); err != nil || len(got.GetOptions()) != 2 {
		t.Error("with old prices:", got, err)
	}
	many := &expander.BestOptionsRequest{}
	for i := range maxOptions + 1 {
		many.Options = append(many.Options, &expander.Option{NodeGroupId: fmt.Sprint(i)})
	}
	_, err = client.BestOptions(t.Context(), many)
	code(t, err, codes.ResourceExhausted)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _ := choose(ended, request(t, true, groups...), st2(st), s.now.Load()); len(got) != 2 {
		t.Error("after the deadline:", names(got))
	}
}

func st2(s *agentv1.Standing) *offerings {
	return indexOfferings(s.GetOfferings(), s.GetValidUntilMs())
}

// Whatever is known and asked: the answer is a part of the question, is not empty, and is the same in any order.
func TestPropertyTheAnswerIsPartOfTheQuestion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var prices []*agentv1.OfferingPrice
		for i := range rapid.IntRange(0, 6).Draw(t, "prices") {
			p := price(fmt.Sprintf("r1//t%d/on_demand", i), rapid.Int64Range(-1, 1_000_000).Draw(t, "nano"))
			p.StockOut, p.HazardPerHour = rapid.Float64Range(0, 1).Draw(t, "stock"), rapid.Float64Range(0, 1).Draw(t, "hazard")
			prices = append(prices, p)
		}
		var groups []group
		for i := range rapid.IntRange(1, 8).Draw(t, "groups") {
			groups = append(groups, group{id: fmt.Sprint("g", i), nodes: rapid.Int32Range(-1, 9).Draw(t, "nodes"), labels: zone("z1", fmt.Sprintf("t%d", rapid.IntRange(0, 7).Draw(t, "type"))),
				pods: rapid.IntRange(0, 3).Draw(t, "pods")})
		}
		req := request(&fatal{t: t}, true, groups...)
		got, _ := choose(context.Background(), req, indexOfferings(prices, 1), 0)
		if len(got) == 0 {
			t.Fatal("no option left")
		}
		ids := names(got)
		for _, o := range got {
			if !slices.ContainsFunc(req.GetOptions(), func(x *expander.Option) bool { return x.GetNodeGroupId() == o.GetNodeGroupId() }) {
				t.Fatal("an option that was not offered")
			}
		}
		slices.Reverse(req.Options)
		again, _ := choose(context.Background(), req, indexOfferings(prices, 1), 0)
		other := names(again)
		slices.Sort(ids)
		slices.Sort(other)
		if !slices.Equal(ids, other) {
			t.Fatalf("%v, and in another order %v", ids, other)
		}
	})
}

// fatal lets a helper of tests run inside a property.
type fatal struct {
	testing.TB
	t *rapid.T
}

func (f *fatal) Helper()           {}
func (f *fatal) Fatal(args ...any) { f.t.Fatal(args...) }

func TestALargeRequestIsAnsweredWellWithinTheDeadline(t *testing.T) {
	t.Parallel()
	s := newScene()
	st := s.standing(1, 300)
	var groups []group
	for i := range 100 {
		st.Offerings = append(st.Offerings, price(fmt.Sprintf("r1//t%d/on_demand", i), int64(i+1)))
		groups = append(groups, group{id: fmt.Sprint("g", i), nodes: 3, labels: zone("z1", fmt.Sprintf("t%d", i)), pods: 200})
	}
	if err := s.Put(st); err != nil {
		t.Fatal(err)
	}
	client := expander.NewExpanderClient(start(t, Config{Expander: true}, s.Board, open, insecure.NewCredentials()))
	begun := time.Now()
	got, err := client.BestOptions(t.Context(), request(t, true, groups...))
	if err != nil || strings.Join(names(got.GetOptions()), " ") != "g0" {
		t.Fatal(names(got.GetOptions()), err)
	}
	t.Logf("100 options with 200 pods each: %s with both sides", time.Since(begun).Round(time.Millisecond))
}
